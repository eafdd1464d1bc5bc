//! What a data folder knows of the grid that its node belongs to: the file `grid.toml`.

use super::join::{apply, grid_of};
use super::logs_seen;
use rubato_base::NodeId;
use rubato_grid::channel::{GridId, Secret};
use rubato_grid::members::{Applicant, Member, Members};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

const FILE: &str = "grid.toml";
const COMMENT: &str = "# The grid that this node belongs to. Written by rubato.\n";
/// Before the checksum of what stands below.
const CHECKSUM: &str = "checksum = \"";

/// What the command line says of a grid.
#[derive(Debug, Default)]
pub(crate) struct GridWishes {
    /// Where to listen for other nodes.
    pub(crate) listen: Option<String>,
    /// What the others are told of that.
    pub(crate) address: Option<String>,
    /// A node of the grid to be joined.
    pub(crate) join: Option<String>,
    /// What the nodes share.
    pub(crate) secret: Option<Vec<u8>>,
}

/// A node's place in its grid.
#[derive(Debug)]
pub(crate) struct Place {
    pub(super) folder: PathBuf,
    applicant: Applicant,
    /// It has joined, and has no data yet: nobody has been given its word.
    is_fresh: bool,
    /// Its number.
    pub(crate) node: NodeId,
    /// Who belongs to the grid, as far as it knows.
    pub(crate) members: Members,
    /// What the nodes share.
    pub(crate) secret: Secret,
    /// Where it listens.
    pub(crate) listen: SocketAddr,
    /// Where the others reach it.
    pub(crate) address: String,
    /// Where another node may be found, if none is where it was.
    pub(crate) lookout: Option<String>,
    /// The last life of each other node that was seen, with its lot.
    pub(crate) lives: BTreeMap<NodeId, u64>,
    /// How far the log of each other node is certainly written, as it has said.
    pub(crate) logs: BTreeMap<NodeId, u64>,
    /// Why the folder is not to be used again: another node has said so.
    outdated: Option<String>,
}

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Of all that stands below it. A file without one was changed by hand, or written by an earlier version.
    #[serde(rename = "checksum")]
    _checksum: Option<String>,
    applicant: String,
    #[serde(default)]
    fresh: bool,
    node: Option<u32>,
    grid: Option<String>,
    version: Option<u64>,
    outdated: Option<String>,
    #[serde(default)]
    members: Vec<FileMember>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileMember {
    node: u32,
    address: String,
    applicant: String,
    life: Option<u64>,
    log: Option<u64>,
}

/// The place of the node of a folder: the one that it has, a new grid, or what the grid gives that it joins. `None` for a node alone.
/// The grid is waited for as long as nobody has it stopped. The folder is this process's alone.
///
/// Errors: a sentence.
pub(crate) fn take_place(
    folder: &Path,
    wishes: GridWishes,
    is_stopped: &mut dyn FnMut() -> bool,
) -> Result<Option<Place>, String> {
    let known = read(folder)?;
    if known.is_none() && logs_seen::is_there(folder) {
        return Err(format!(
            "the folder {} is that of a node of a grid, and its file {FILE} is gone, which says of which: put it back",
            folder.display()
        ));
    }
    let wants = wishes.listen.is_some() || wishes.join.is_some();
    if known.is_none() && !wants {
        if wishes.address.is_some() {
            return Err(
                "--grid-address says where other nodes reach this one: say with --grid-listen HOST:PORT where it listens for them"
                    .to_owned(),
            );
        }
        return Ok(None);
    }
    let secret = wishes.secret.as_deref().ok_or_else(|| match known.is_some() {
        true => format!(
            "the folder {} is that of a node of a grid: give it the grid's secret with --grid-secret-file",
            folder.display()
        ),
        false => "the nodes of a grid know each other by a secret: give it with --grid-secret-file".to_owned(),
    })?;
    let secret = Secret::new(secret)?;
    let (lives, mut logs) = known
        .as_ref()
        .map_or_else(Default::default, |known| (known.lives.clone(), known.logs.clone()));
    let grid = known
        .as_ref()
        .and_then(|known| known.place.as_ref())
        .map(|(_, members)| members.grid);
    for (node, log) in grid.map(|grid| logs_seen::read(folder, grid)).into_iter().flatten() {
        let known = logs.entry(node).or_default();
        *known = log.max(*known);
    }
    let own = known.as_ref().and_then(|known| known.place.as_ref());
    // With others it may look for them, as each of them may.
    let is_alone = |(node, members): &(NodeId, Members)| *node == Members::FIRST && members.members.len() == 1;
    if wishes.join.is_some() && own.is_some_and(is_alone) {
        return Err(format!(
            "the folder {} is that of the node that has begun a grid, which cannot join another: start it without --join",
            folder.display()
        ));
    }
    // One that does not answer may be any: the node starts, and looks for the grid that it is of.
    if let (Some(at), Some((node, members))) = (&wishes.join, own)
        && let Some(other) = grid_of(at, &secret).filter(|grid| *grid != members.grid)
    {
        return Err(format!(
            "the folder {} is that of node {} of the grid {}, and the node at {at} is of {other}: start it without --join, or join with an \
             empty folder",
            folder.display(),
            node.0,
            members.grid
        ));
    }
    let kept = own.and_then(|(node, members)| Some(members.members.get(node)?.address.clone()));
    let listen = wishes
        .listen
        .or_else(|| kept.clone())
        .ok_or("a node that joins a grid is reached by the others: say where with --grid-listen HOST:PORT")?;
    let listen = resolve(&listen)?;
    let address = match wishes.address {
        Some(address) => address,
        None if listen.ip().is_unspecified() => {
            return Err(format!(
                "other nodes cannot reach {listen}: say with --grid-address HOST:PORT where they do"
            ));
        }
        None => listen.to_string(),
    };
    if wishes.join.is_some() && own.is_none() && folder.join("log").exists() {
        return Err(format!(
            "the folder {} has data of its own, which would not be that of the grid: join with an empty one",
            folder.display()
        ));
    }
    let applicant = match &known {
        Some(known) => known.applicant,
        None => begin(folder)?,
    };
    let is_fresh = known
        .as_ref()
        .map_or(wishes.join.is_some(), |known| known.is_fresh || known.place.is_none());
    if own.is_some_and(|(_, members)| members.members.len() > 1) && !is_fresh && !folder.join("log").exists() {
        return Err(format!(
            "the folder {} is that of a node of a grid, and its data is gone: it would give its word a second time. \
             Empty the folder, and join the grid as a new node at another address",
            folder.display()
        ));
    }
    let lookout = wishes.join.clone().filter(|_| own.is_some());
    let is_known = own.is_some();
    let (node, members) = match (known.and_then(|known| known.place), &wishes.join) {
        (Some(place), _) => place,
        (None, Some(at)) => apply(at, &secret, (applicant, &address), is_stopped)?,
        (None, None) => (
            Members::FIRST,
            Members::begin(GridId(random()?), applicant, address.clone()),
        ),
    };
    let place = Place {
        folder: folder.to_owned(),
        applicant,
        is_fresh,
        node,
        members,
        secret,
        listen,
        address,
        lookout,
        lives,
        logs,
        outdated: None,
    };
    match write_members(&place, &place.members) {
        // What has come to it meanwhile, how far others' logs reach, is in the file beside as well: a full disk keeps no node from being started.
        Err(why) if is_known => tracing::warn!(why, "the node starts with what the file says"),
        written => written?,
    }
    Ok(Some(place))
}

/// A folder that no grid knows yet: gives it a name to apply under.
fn begin(folder: &Path) -> Result<Applicant, String> {
    let applicant = random()?;
    let text = format!("applicant = \"{}\"\n", hexadecimal(&applicant));
    write(folder, &text)?;
    Ok(applicant)
}

impl Place {
    /// The node has data from now on: without it the folder is that of no node any more.
    ///
    /// Errors: a sentence, if that cannot be written down.
    pub(crate) fn has_data(&mut self) -> Result<(), String> {
        match std::mem::take(&mut self.is_fresh) {
            true => write_members(self, &self.members),
            false => Ok(()),
        }
    }
}

fn resolve(listen: &str) -> Result<SocketAddr, String> {
    let wrong = |why: &str| format!("cannot listen at {listen} for other nodes: {why}");
    let mut found = listen.to_socket_addrs().map_err(|error| wrong(&error.to_string()))?;
    found.next().ok_or_else(|| wrong("the name has no address"))
}

fn random() -> Result<[u8; 16], String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|wrong| format!("no random numbers: {wrong}"))?;
    Ok(bytes)
}

/// What was known of a node.
#[derive(Debug)]
struct Known {
    /// What it applied as.
    applicant: Applicant,
    is_fresh: bool,
    /// Its number, with the list.
    place: Option<(NodeId, Members)>,
    lives: BTreeMap<NodeId, u64>,
    logs: BTreeMap<NodeId, u64>,
    /// Why the folder is not to be used, if another node has said so.
    outdated: Option<String>,
}

fn read(folder: &Path) -> Result<Option<Known>, String> {
    let path = folder.join(FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(wrong) if wrong.kind() == ErrorKind::NotFound => return Ok(None),
        Err(wrong) => return Err(format!("cannot read {}: {wrong}", path.display())),
    };
    let known = parse(&text).map_err(|why| format!("{} is damaged: {why}", path.display()))?;
    match &known.place {
        Some((node, _)) if known.outdated.is_some() => Err(format!(
            "the folder {} of node {} is not its newest one, as another node has said: {}. Start the node on its newest folder; if that is \
             lost, so are its rows. Another can join in its place, but only a node that has no rows can be removed from the grid",
            folder.display(),
            node.0,
            known.outdated.as_deref().unwrap_or_default()
        )),
        Some((node, members)) if !members.members.contains_key(node) => Err(format!(
            "node {} was removed from its grid, and the folder {} is not used any more: another folder can join as another node",
            node.0,
            folder.display()
        )),
        _ => Ok(Some(known)),
    }
}

/// Whether what stands below the checksum is what was written, if there is one.
fn check(text: &str) -> Result<(), String> {
    let Some((_, checked)) = text.split_once(CHECKSUM) else {
        return Ok(());
    };
    let (checksum, below) = checked.split_once("\"\n").unwrap_or((checked, ""));
    match checksum == checksum_of(below) {
        true => Ok(()),
        false => Err(
            "it is not what was written there. If it was changed by hand, take its line with the checksum away, too"
                .to_owned(),
        ),
    }
}

fn checksum_of(text: &str) -> String {
    format!("{:08x}", crc32c::crc32c(text.as_bytes()))
}

fn parse(text: &str) -> Result<Known, String> {
    check(text)?;
    let file: File = toml::from_str(text).map_err(|wrong| wrong.to_string())?;
    let (applicant, is_fresh) = (sixteen(&file.applicant)?, file.fresh);
    let (Some(node), Some(grid), Some(version)) = (file.node, &file.grid, file.version) else {
        return Ok(Known {
            applicant,
            is_fresh,
            place: None,
            lives: BTreeMap::new(),
            logs: BTreeMap::new(),
            outdated: file.outdated,
        });
    };
    let seen = |of: fn(&FileMember) -> Option<u64>| {
        let of_each = file.members.iter().map(|member| (NodeId(member.node), of(member)));
        of_each.filter_map(|(node, seen)| Some((node, seen?))).collect()
    };
    let (lives, logs) = (seen(|member| member.life), seen(|member| member.log));
    let member = |member: FileMember| {
        let applicant = sixteen(&member.applicant)?;
        let address = member.address;
        Ok((NodeId(member.node), Member { address, applicant }))
    };
    let entries = file
        .members
        .into_iter()
        .map(member)
        .collect::<Result<Vec<_>, String>>()?;
    let members = Members::of_entries(GridId(sixteen(grid)?), version, entries);
    Ok(Known {
        applicant,
        is_fresh,
        place: Some((NodeId(node), members)),
        lives,
        logs,
        outdated: file.outdated,
    })
}

/// Writes down that the folder is not to be used any more, since another node says that it is an old one. It stays so, whatever is written
/// later.
pub(super) fn write_outdated(place: &mut Place, why: &str) -> Result<(), String> {
    place.outdated = Some(why.to_owned());
    write_members(place, &place.members)
}

/// Writes a list of members down, durably, with the lives of them that were seen.
pub(super) fn write_members(place: &Place, members: &Members) -> Result<(), String> {
    let mut text = format!(
        "grid = \"{}\"\nnode = {}\napplicant = \"{}\"\nversion = {}\n",
        members.grid,
        place.node.0,
        hexadecimal(&place.applicant),
        members.version
    );
    if place.is_fresh {
        text.push_str("fresh = true\n");
    }
    if let Some(why) = &place.outdated {
        let _ = writeln!(text, "outdated = {why:?}");
    }
    for (node, member) in members.entries() {
        // A string literal of TOML is one of Rust's for what an address may have in it.
        let _ = write!(
            text,
            "\n[[members]]\nnode = {}\naddress = {:?}\napplicant = \"{}\"\n",
            node.0,
            member.address,
            hexadecimal(&member.applicant)
        );
        if let Some(life) = place.lives.get(&node) {
            let _ = writeln!(text, "life = {life}");
        }
        if let Some(log) = place.logs.get(&node) {
            let _ = writeln!(text, "log = {log}");
        }
    }
    write(&place.folder, &text)
}

/// Replaces the file as a whole: whoever reads it finds the old one or the new one.
fn write(folder: &Path, text: &str) -> Result<(), String> {
    let text = format!("{COMMENT}{CHECKSUM}{}\"\n{text}", checksum_of(text));
    let (path, beside) = (folder.join(FILE), folder.join("grid.toml.new"));
    // A full disk does not keep a node from being started whose place is as it was.
    if fs::read_to_string(&path).is_ok_and(|known| known == text) {
        return Ok(());
    }
    let written = || -> std::io::Result<()> {
        let mut file = fs::File::create(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, &path)?;
        fs::File::open(folder)?.sync_all()
    };
    written().map_err(|wrong| format!("cannot write {}: {wrong}", path.display()))
}

fn hexadecimal(bytes: &[u8; 16]) -> String {
    GridId(*bytes).to_string()
}

fn sixteen(text: &str) -> Result<[u8; 16], String> {
    let digits = u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32);
    digits
        .map(u128::to_be_bytes)
        .ok_or_else(|| format!("{text:?} is not a number of 32 hexadecimal digits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place_of(folder: &Path, wishes: GridWishes) -> Result<Option<Place>, String> {
        take_place(folder, wishes, &mut || false)
    }

    fn wishes() -> GridWishes {
        GridWishes {
            listen: Some("127.0.0.1:7001".to_owned()),
            secret: Some(b"a secret of some length".to_vec()),
            ..GridWishes::default()
        }
    }

    /// The place of the first of two nodes.
    fn place_of_two(folder: &Path) -> Place {
        let mut place = place_of(folder, wishes()).unwrap().unwrap();
        let other = Member {
            address: "127.0.0.1:7002".to_owned(),
            applicant: [7; 16],
        };
        place.members.members.insert(NodeId(1), other);
        place
    }

    #[test]
    fn a_new_grid_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        assert!(place_of(folder.path(), GridWishes::default()).unwrap().is_none());
        let first = place_of(folder.path(), wishes()).unwrap().unwrap();
        assert_eq!((first.node, first.members.version), (Members::FIRST, 1));
        // What it was started with need not be said again, but for the secret.
        let again = GridWishes {
            listen: None,
            ..wishes()
        };
        let again = place_of(folder.path(), again).unwrap().unwrap();
        assert_eq!((again.members, again.address), (first.members.clone(), first.address));
        let moved = GridWishes {
            address: Some("node \"0\":1".to_owned()),
            ..wishes()
        };
        let moved = place_of(folder.path(), moved).unwrap().unwrap();
        assert_eq!(moved.members.grid, first.members.grid);
        // Whoever keeps the list writes that into it, which may be another node.
        assert_eq!((moved.members.version, moved.address.as_str()), (1, "node \"0\":1"));
        let mut members = moved.members.clone();
        members.move_to(Members::FIRST, &moved.address);
        write_members(&moved, &members).unwrap();
        let again = read(folder.path()).unwrap().unwrap();
        assert_eq!(again.place, Some((Members::FIRST, members)));
    }

    /// A node that was killed between its place and its data could not be started again, and could not be removed from the grid either.
    #[test]
    fn a_node_that_has_a_place_and_no_data_yet_is_started_again_and_one_that_has_lost_it_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut place = place_of_two(folder.path());
        place.is_fresh = true;
        write_members(&place, &place.members).unwrap();
        let mut again = place_of(folder.path(), wishes()).unwrap().unwrap();
        assert!(again.is_fresh);
        again.has_data().unwrap();
        let refused = place_of(folder.path(), wishes()).unwrap_err();
        assert!(refused.contains("its data is gone"), "{refused}");
        fs::create_dir(folder.path().join("log")).unwrap();
        assert!(!place_of(folder.path(), wishes()).unwrap().unwrap().is_fresh);
    }

    #[test]
    fn a_file_that_is_not_as_it_was_written_is_refused_and_so_is_a_folder_without_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut place = place_of_two(folder.path());
        place.lives.insert(NodeId(1), 5 << 40 | 3);
        write_members(&place, &place.members).unwrap();
        fs::create_dir(folder.path().join("log")).unwrap();
        let (path, whole) = (folder.path().join(FILE), fs::read(folder.path().join(FILE)).unwrap());
        let refuses = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            let told = place_of(folder.path(), wishes()).err();
            told.is_some_and(|why| why.contains("is damaged") || why.contains("cannot read"))
        };
        // (What the comment says does not count, nor whether there is one.)
        for at in COMMENT.len()..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            assert!(refuses(&flipped), "{at}");
            assert!(refuses(&whole[..at]), "up to {at}");
        }
        // Whoever changes it by hand takes the checksum away.
        let text = String::from_utf8(whole.clone()).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with(CHECKSUM)).collect();
        fs::write(&path, lines.join("\n").replace("127.0.0.1:7002", "elsewhere:7002")).unwrap();
        let changed = place_of(folder.path(), wishes()).unwrap().unwrap();
        assert_eq!(changed.members.members[&NodeId(1)].address, "elsewhere:7002");
        fs::remove_file(&path).unwrap();
        let seen = BTreeMap::from([(place.node, 700)]);
        logs_seen::LogsSeen::default()
            .write(folder.path(), place.members.grid, &seen)
            .unwrap();
        for wishes in [wishes(), GridWishes::default()] {
            let refused = place_of(folder.path(), wishes).unwrap_err();
            assert!(refused.contains("is gone"), "{refused}");
        }
    }

    #[test]
    fn what_was_seen_of_others_is_kept_and_a_folder_that_is_not_the_newest_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let mut place = place_of_two(folder.path());
        place.lives.insert(NodeId(1), 5 << 40 | 3);
        place.logs.insert(NodeId(1), 4_711);
        write_members(&place, &place.members).unwrap();
        fs::create_dir(folder.path().join("log")).unwrap();
        let again = place_of(folder.path(), wishes()).unwrap().unwrap();
        assert_eq!((&again.lives, &again.logs), (&place.lives, &place.logs));
        let mut again = again;
        write_outdated(&mut again, "node 0 is in its life 2, and its life \"3\" has been seen").unwrap();
        // What it sees of others until it ends is written down, too.
        for log in [4_712, 4_713] {
            let refused = place_of(folder.path(), wishes()).unwrap_err();
            assert!(refused.contains("its life \"3\" has been seen"), "{refused}");
            again.logs.insert(NodeId(1), log);
            write_members(&again, &again.members).unwrap();
        }
    }

    /// A full disk does not keep a node from being started.
    #[test]
    fn a_place_that_cannot_be_written_keeps_no_node_from_being_started_that_has_one() {
        let folder = tempfile::tempdir().unwrap();
        let beside = folder.path().join("grid.toml.new");
        // (Nothing can be written there.)
        fs::create_dir(&beside).unwrap();
        assert!(place_of(folder.path(), wishes()).is_err());
        fs::remove_dir(&beside).unwrap();
        let place = place_of(folder.path(), wishes()).unwrap().unwrap();
        fs::create_dir(&beside).unwrap();
        place_of(folder.path(), wishes()).unwrap();
        // Others' logs have grown since, which is known from the file beside.
        let seen = BTreeMap::from([(place.node, 700)]);
        logs_seen::LogsSeen::default()
            .write(folder.path(), place.members.grid, &seen)
            .unwrap();
        let again = place_of(folder.path(), wishes()).unwrap().unwrap();
        assert_eq!(again.logs.get(&place.node), Some(&700));
        let moved = GridWishes {
            address: Some("elsewhere:1".to_owned()),
            ..wishes()
        };
        let mut place = place_of(folder.path(), moved).unwrap().unwrap();
        assert!(write_outdated(&mut place, "why").is_err());
        // It is once there is room.
        fs::remove_dir(&beside).unwrap();
        write_members(&place, &place.members).unwrap();
        assert!(place_of(folder.path(), wishes()).unwrap_err().contains("why"));
    }

    #[test]
    fn what_cannot_be_a_node_of_a_grid_is_told_why() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |wishes| place_of(folder.path(), wishes).unwrap_err();
        let without_secret = GridWishes {
            secret: None,
            ..wishes()
        };
        assert!(refused(without_secret).contains("--grid-secret-file"));
        let short = GridWishes {
            secret: Some(b"short".to_vec()),
            ..wishes()
        };
        assert!(refused(short).contains("16 bytes"));
        let nowhere = GridWishes {
            listen: None,
            join: Some("127.0.0.1:1".to_owned()),
            ..wishes()
        };
        assert!(refused(nowhere).contains("--grid-listen"));
        let anywhere = GridWishes {
            listen: Some("0.0.0.0:7001".to_owned()),
            ..wishes()
        };
        assert!(refused(anywhere).contains("--grid-address"));
        let only_address = GridWishes {
            address: Some("127.0.0.1:7001".to_owned()),
            ..GridWishes::default()
        };
        assert!(refused(only_address).contains("--grid-listen"));
        assert!(!folder.path().join(FILE).exists(), "nothing was begun");
        fs::create_dir(folder.path().join("log")).unwrap();
        let joins = || GridWishes {
            join: Some("127.0.0.1:1".to_owned()),
            ..wishes()
        };
        assert!(refused(joins()).contains("data of its own"));
        assert!(!folder.path().join(FILE).exists(), "it is still that of a node alone");
        fs::remove_dir(folder.path().join("log")).unwrap();
        assert!(refused(joins()).contains("127.0.0.1:1"), "nobody is there");
        fs::write(folder.path().join(FILE), "applicant = \"7\"\n").unwrap();
        assert!(refused(wishes()).contains("is damaged"));
        fs::write(folder.path().join(FILE), "applicant = ").unwrap();
        assert!(refused(wishes()).contains("is damaged"));
    }
}
