//! What PostgreSQL's default list of time zone abbreviations says.

/// What an abbreviation stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// So many seconds east of UTC at all times, and whether that is summer time.
    Fixed { east_s: i32, is_summer: bool },
    /// What this zone calls by it, which was not the same at all times.
    Follows(&'static str),
}

/// An abbreviation in capitals and what it stands for.
pub(super) type Abbreviation = (&'static str, Meaning);

const fn fixed(name: &'static str, east_s: i32) -> Abbreviation {
    let is_summer = false;
    (name, Meaning::Fixed { east_s, is_summer })
}

const fn summer(name: &'static str, east_s: i32) -> Abbreviation {
    let is_summer = true;
    (name, Meaning::Fixed { east_s, is_summer })
}

const fn follows(name: &'static str, zone: &'static str) -> Abbreviation {
    (name, Meaning::Follows(zone))
}

/// The abbreviation that is spelled so, in either case.
pub(super) fn find(word: &str) -> Option<Abbreviation> {
    let word = word.to_ascii_uppercase();
    let found = ABBREVIATIONS.binary_search_by(|(name, _)| (*name).cmp(&word));
    found.ok().map(|index| ABBREVIATIONS[index])
}

/// All of them, in their order.
pub(super) const ABBREVIATIONS: &[Abbreviation] = &[
    summer("ACDT", 37_800),
    summer("ACSST", 37_800),
    fixed("ACST", 34_200),
    fixed("ACT", -18_000),
    fixed("ACWST", 31_500),
    summer("ADT", -10_800),
    summer("AEDT", 39_600),
    summer("AESST", 39_600),
    fixed("AEST", 36_000),
    fixed("AFT", 16_200),
    summer("AKDT", -28_800),
    fixed("AKST", -32_400),
    summer("ALMST", 25_200),
    fixed("ALMT", 21_600),
    follows("AMST", "Asia/Yerevan"),
    fixed("AMT", -14_400),
    follows("ANAST", "Asia/Anadyr"),
    follows("ANAT", "Asia/Anadyr"),
    follows("ARST", "America/Argentina/Buenos_Aires"),
    follows("ART", "America/Argentina/Buenos_Aires"),
    fixed("AST", -14_400),
    summer("AWSST", 32_400),
    fixed("AWST", 28_800),
    summer("AZOST", 0),
    fixed("AZOT", -3600),
    follows("AZST", "Asia/Baku"),
    follows("AZT", "Asia/Baku"),
    summer("BDST", 7200),
    fixed("BDT", 21_600),
    fixed("BNT", 28_800),
    fixed("BORT", 28_800),
    fixed("BOT", -14_400),
    fixed("BRA", -10_800),
    summer("BRST", -7200),
    fixed("BRT", -10_800),
    summer("BST", 3600),
    fixed("BTT", 21_600),
    summer("CADT", 37_800),
    fixed("CAST", 34_200),
    fixed("CCT", 28_800),
    summer("CDT", -18_000),
    summer("CEST", 7200),
    fixed("CET", 3600),
    summer("CETDST", 7200),
    summer("CHADT", 49_500),
    fixed("CHAST", 45_900),
    fixed("CHUT", 36_000),
    follows("CKT", "Pacific/Rarotonga"),
    summer("CLST", -10_800),
    follows("CLT", "America/Santiago"),
    fixed("COT", -18_000),
    fixed("CST", -21_600),
    fixed("CXT", 25_200),
    follows("DAVT", "Antarctica/Davis"),
    fixed("DDUT", 36_000),
    follows("EASST", "Pacific/Easter"),
    follows("EAST", "Pacific/Easter"),
    fixed("EAT", 10_800),
    summer("EDT", -14_400),
    summer("EEST", 10_800),
    fixed("EET", 7200),
    summer("EETDST", 10_800),
    summer("EGST", 0),
    fixed("EGT", -3600),
    fixed("EST", -18_000),
    fixed("FET", 10_800),
    summer("FJST", 46_800),
    fixed("FJT", 43_200),
    follows("FKST", "Atlantic/Stanley"),
    follows("FKT", "Atlantic/Stanley"),
    summer("FNST", -3600),
    fixed("FNT", -7200),
    fixed("GALT", -21_600),
    fixed("GAMT", -32_400),
    follows("GEST", "Asia/Tbilisi"),
    follows("GET", "Asia/Tbilisi"),
    fixed("GFT", -10_800),
    fixed("GILT", 43_200),
    fixed("GMT", 0),
    follows("GYT", "America/Guyana"),
    fixed("HKT", 28_800),
    fixed("HST", -36_000),
    fixed("ICT", 25_200),
    summer("IDT", 10_800),
    follows("IOT", "Indian/Chagos"),
    follows("IRKST", "Asia/Irkutsk"),
    follows("IRKT", "Asia/Irkutsk"),
    fixed("IRT", 12_600),
    fixed("IST", 7200),
    fixed("JAYT", 32_400),
    fixed("JST", 32_400),
    summer("KDT", 36_000),
    summer("KGST", 21_600),
    follows("KGT", "Asia/Bishkek"),
    follows("KOST", "Pacific/Kosrae"),
    follows("KRAST", "Asia/Krasnoyarsk"),
    follows("KRAT", "Asia/Krasnoyarsk"),
    fixed("KST", 32_400),
    follows("LHDT", "Australia/Lord_Howe"),
    fixed("LHST", 37_800),
    fixed("LIGT", 36_000),
    follows("LINT", "Pacific/Kiritimati"),
    follows("LKT", "Asia/Colombo"),
    follows("MAGST", "Asia/Magadan"),
    follows("MAGT", "Asia/Magadan"),
    fixed("MART", -34_200),
    follows("MAWT", "Antarctica/Mawson"),
    summer("MDT", -21_600),
    summer("MEST", 7200),
    summer("MESZ", 7200),
    fixed("MET", 3600),
    summer("METDST", 7200),
    fixed("MEZ", 3600),
    fixed("MHT", 43_200),
    fixed("MMT", 23_400),
    fixed("MPT", 36_000),
    summer("MSD", 14_400),
    follows("MSK", "Europe/Moscow"),
    fixed("MST", -25_200),
    summer("MUST", 18_000),
    fixed("MUT", 14_400),
    fixed("MVT", 18_000),
    fixed("MYT", 28_800),
    summer("NDT", -9000),
    fixed("NFT", -12_600),
    follows("NOVST", "Asia/Novosibirsk"),
    follows("NOVT", "Asia/Novosibirsk"),
    fixed("NPT", 20_700),
    fixed("NST", -12_600),
    follows("NUT", "Pacific/Niue"),
    summer("NZDT", 46_800),
    fixed("NZST", 43_200),
    fixed("NZT", 43_200),
    follows("OMSST", "Asia/Omsk"),
    follows("OMST", "Asia/Omsk"),
    summer("PDT", -25_200),
    fixed("PET", -18_000),
    follows("PETST", "Asia/Kamchatka"),
    follows("PETT", "Asia/Kamchatka"),
    fixed("PGT", 36_000),
    fixed("PHT", 28_800),
    summer("PKST", 21_600),
    fixed("PKT", 18_000),
    summer("PMDT", -7200),
    fixed("PMST", -10_800),
    fixed("PONT", 39_600),
    fixed("PST", -28_800),
    fixed("PWT", 32_400),
    summer("PYST", -10_800),
    follows("PYT", "America/Asuncion"),
    fixed("RET", 14_400),
    summer("SADT", 37_800),
    fixed("SAST", 7200),
    fixed("SCT", 14_400),
    follows("SGT", "Asia/Singapore"),
    fixed("TAHT", -36_000),
    fixed("TFT", 18_000),
    fixed("TJT", 18_000),
    follows("TKT", "Pacific/Fakaofo"),
    follows("TMT", "Asia/Ashgabat"),
    fixed("TOT", 46_800),
    fixed("TRUT", 36_000),
    fixed("TVT", 43_200),
    fixed("UCT", 0),
    summer("ULAST", 32_400),
    follows("ULAT", "Asia/Ulaanbaatar"),
    fixed("UT", 0),
    fixed("UTC", 0),
    summer("UYST", -7200),
    fixed("UYT", -10_800),
    summer("UZST", 21_600),
    fixed("UZT", 18_000),
    follows("VET", "America/Caracas"),
    follows("VLAST", "Asia/Vladivostok"),
    follows("VLAT", "Asia/Vladivostok"),
    follows("VOLT", "Europe/Volgograd"),
    fixed("VUT", 39_600),
    summer("WADT", 28_800),
    fixed("WAKT", 43_200),
    fixed("WAST", 25_200),
    fixed("WAT", 3600),
    summer("WDT", 32_400),
    fixed("WET", 0),
    summer("WETDST", 3600),
    fixed("WFT", 43_200),
    summer("WGST", -7200),
    fixed("WGT", -10_800),
    fixed("XJT", 21_600),
    follows("YAKST", "Asia/Yakutsk"),
    follows("YAKT", "Asia/Yakutsk"),
    fixed("YAPT", 36_000),
    summer("YEKST", 21_600),
    follows("YEKT", "Asia/Yekaterinburg"),
    fixed("Z", 0),
    fixed("ZULU", 0),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datetime::TimeZone;

    #[test]
    fn all_are_found_and_have_an_offset() {
        for (name, _) in ABBREVIATIONS {
            assert_eq!(find(&name.to_ascii_lowercase()).map(|(found, _)| found), Some(*name));
            assert!(TimeZone::from_abbreviation(name).is_some(), "{name}");
        }
    }
}
