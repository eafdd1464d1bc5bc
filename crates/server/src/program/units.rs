//! Sizes as people write them.

use serde::de::{Deserialize, Deserializer, Error as _};
use std::fmt;
use std::str::FromStr;

/// A number of bytes, written as `512MB`, `2GiB`, `64k` or plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size {
    /// The number of bytes.
    pub bytes: u64,
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let text = text.trim();
        let digits = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let wrong = || format!("`{text}` is not a size; write for example 512MB or 2GiB");
        let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            _ => return Err(wrong()),
        };
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let bytes = number * factor as f64;
        if !(0.0..9e18).contains(&bytes) {
            return Err(wrong());
        }
        Ok(Size { bytes: bytes as u64 })
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes {
            bytes if bytes >= 10 << 30 => write!(f, "{} GiB", bytes >> 30),
            bytes if bytes >= 10 << 20 => write!(f, "{} MiB", bytes >> 20),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// A share of this machine's memory: a quarter of what the process may use.
pub fn memory_default() -> Size {
    let machine = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| total_of(&text));
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max")
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let usable = [machine, group].into_iter().flatten().min().unwrap_or(4 << 30);
    Size {
        bytes: (usable / 4).max(64 << 20),
    }
}

fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()
        .map(|kilobytes| kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("512MB", 512_000_000),
            ("2GiB", 2 << 30),
            ("1.5 g", 3 << 29),
            ("64k", 64 << 10),
            ("7", 7),
            ("0b", 0),
        ] {
            assert_eq!(text.parse(), Ok(Size { bytes }), "{text}");
        }
        for text in ["", "MB", "1XB", "-1MB", "1e3", "99999999999TB", "1..2"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
        assert_eq!(total_of("MemTotal:       2048 kB\nMemFree: 1 kB"), Some(2 << 20));
        assert!(memory_default().bytes >= 64 << 20);
    }
}
