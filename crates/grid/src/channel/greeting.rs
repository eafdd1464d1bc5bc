//! The two ends of a hello.
//!
//! ```text
//! dialling   magic, HELLO (who I am, a nonce)  ->
//!                                              <-  magic, WELCOME (the version, who I am, a nonce, a proof)   accepting
//!            PROOF                             ->
//!                                              <-  ACCEPTED (a proof)
//! ```
//!
//! Each proof is an HMAC under the shared secret over a word that only this proof has and the hash of all that both ends said before it.
//! So a proof is of no use in another place, in the other direction, or in another hello.
//!
//! Either end may say REFUSED instead, from HELLO on. What a node does not just take for an attempt that failed, that its folder is outdated
//! first of all, it believes with such a proof only: a stranger must not be able to put a node out of service.

use super::hello::{self, ACCEPTED, Card, HELLO, Incoming, MAGIC, PROOF, REFUSED, WELCOME};
use super::seal::{Key, Seal, derive, proves};
use super::{APPLICANT, GridId, HELLO_TIME_US, Identity, Integrity, Refusal};
use crate::frame::{FrameReader, FrameWriter, put_frame};
use rubato_base::NodeId;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// How far a hello is.
#[derive(Debug)]
pub enum Progress {
    /// It goes on when more bytes come.
    More,
    /// Both ends know each other.
    Done(Box<Greeted>),
    /// There will be no channel. What is to be written goes out first: it tells the other end.
    Refused(Refusal),
}

/// Who is at the other end, and what both go on with.
#[derive(Debug)]
pub struct Greeted {
    /// Its grid.
    pub grid: GridId,
    /// Who it is.
    pub node: NodeId,
    /// Which of its starts it is.
    pub life: u64,
    /// The version of the channel.
    pub version: u16,
    outgoing: Seal,
    incoming: Seal,
    /// Bytes that came behind the hello.
    rest: Vec<u8>,
}

impl Greeted {
    /// The two ends of frames, and the bytes that came behind the hello, to be read first. The writer's bound is [`FrameWriter`]'s.
    pub fn into_channel(self, bytes_max: usize) -> (FrameWriter, FrameReader, Vec<u8>) {
        let writer = FrameWriter::new(self.outgoing, bytes_max);
        (writer, FrameReader::new(self.incoming), self.rest)
    }
}

/// What a node that has proved who it is says of its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Who it is.
    pub node: NodeId,
    /// Which of its starts this is, with its lot.
    pub life: u64,
    /// How far its log reached when that began.
    pub log_end: u64,
}

/// Whether a node that has proved who it is may have a channel: asked with its life.
pub type Judge<'a> = &'a dyn Fn(Claim) -> Result<(), Refusal>;

/// What both ends keep.
#[derive(Debug)]
struct End {
    identity: Arc<Identity>,
    until_us: u64,
    incoming: Incoming,
    /// Seals what this end says until the channel has its own keys.
    seal: Seal,
    /// All that was said.
    said: Sha256,
    /// The words of the proofs of refusals: of this end's, and of the other's.
    refusals: [&'static [u8]; 2],
    /// Nothing goes on from here.
    over: bool,
}

impl End {
    fn new(identity: Arc<Identity>, refusals: [&'static [u8]; 2], now_us: u64) -> End {
        End {
            identity,
            until_us: now_us.saturating_add(HELLO_TIME_US),
            incoming: Incoming::new(),
            seal: Seal::checksum(),
            said: Sha256::new(),
            refusals,
            over: false,
        }
    }

    /// Takes one piece of what was said into the hash, with its length, so that pieces cannot be cut in other places.
    fn hear(&mut self, kind: u8, content: &[u8]) {
        self.said.update([kind]);
        self.said.update((content.len() as u32).to_le_bytes());
        self.said.update(content);
    }

    fn say(&mut self, out: &mut Vec<u8>, kind: u8, body: &[u8]) {
        put_frame(out, &mut self.seal, &[kind], body);
    }

    /// A proof, or a key, of what was said so far.
    fn derive(&self, word: &[u8]) -> Key {
        derive(&self.identity.secret.0, &[word, &self.said.clone().finalize()])
    }

    fn proves(&self, word: &[u8], proof: &[u8]) -> bool {
        proves(&self.identity.secret.0, &[word, &self.said.clone().finalize()], proof)
    }

    /// What is wrong with how the other end names itself.
    fn examine(&self, card: &Card) -> Result<(), Refusal> {
        let identity = &self.identity;
        // One of both is not of any grid yet.
        let applies = |grid, node| grid == GridId::NONE && node == APPLICANT;
        let is_application = applies(card.grid, card.node) != applies(identity.grid, identity.node);
        if card.grid != identity.grid && !is_application {
            return Err(Refusal::OtherGrid {
                ours: identity.grid,
                theirs: card.grid,
            });
        }
        if card.node == identity.node {
            return Err(Refusal::Itself(card.node));
        }
        if card.integrity != identity.integrity {
            return Err(Refusal::OtherIntegrity {
                ours: identity.integrity,
                theirs: card.integrity,
            });
        }
        Ok(())
    }

    fn greeted(&self, card: &Card, version: u16, [ours, theirs]: [&[u8]; 2]) -> Progress {
        let key = self.derive(KEYS);
        let seal = |direction: &[u8]| match self.identity.integrity {
            Integrity::Codes => Seal::code(&derive(&key, &[direction])),
            Integrity::Checksums => Seal::checksum(),
        };
        Progress::Done(Box::new(Greeted {
            grid: card.grid,
            node: card.node,
            life: card.life,
            version,
            outgoing: seal(ours),
            incoming: seal(theirs),
            rest: self.incoming.rest().to_vec(),
        }))
    }

    /// Ends the hello; tells the other end if it may understand.
    fn refuse(&mut self, refusal: Refusal, out: &mut Vec<u8>) -> Progress {
        self.over = true;
        match &refusal {
            Refusal::PostgresClient => hello::put_postgres_error(out, &refusal),
            Refusal::NoNode | Refusal::Told(_) | Refusal::ToldOutdated(_) | Refusal::ToldWithoutProof(_) => {}
            _ => {
                let mut body = hello::refusal_body(&refusal);
                if hello::is_refusal_with_proof(&body) {
                    self.hear(REFUSED, &body);
                    body.extend_from_slice(&self.derive(self.refusals[0]));
                }
                self.say(out, REFUSED, &body);
            }
        }
        Progress::Refused(refusal)
    }

    /// The other end refuses.
    fn on_refused(&mut self, body: &[u8]) -> Refusal {
        let (said, is_proved) = match body.split_last_chunk::<PROOF_BYTES>() {
            Some((said, proof)) if hello::is_refusal_with_proof(said) => {
                self.hear(REFUSED, said);
                (said, self.proves(self.refusals[1], proof))
            }
            _ => (body, false),
        };
        hello::refusal_of(said, is_proved, self.identity.node)
    }

    fn too_slow(&mut self, now_us: u64, out: &mut Vec<u8>) -> Option<Refusal> {
        if now_us < self.until_us || self.over {
            return None;
        }
        self.refuse(Refusal::TooSlow, out);
        Some(Refusal::TooSlow)
    }
}

/// What differs between the two ends.
trait Half {
    fn end(&mut self) -> &mut End;
    fn on_frame(&mut self, kind: u8, body: &[u8], judge: Judge<'_>, out: &mut Vec<u8>) -> Result<Progress, Refusal>;
    fn refuse(&mut self, refusal: Refusal, out: &mut Vec<u8>) -> Progress;
}

/// Takes bytes, frame by frame, until the hello is over.
fn drive(half: &mut dyn Half, bytes: &[u8], judge: Judge<'_>, out: &mut Vec<u8>) -> Progress {
    half.end().incoming.take(bytes);
    while !half.end().over {
        let step = match half.end().incoming.next() {
            Ok(None) => return Progress::More,
            Ok(Some((kind, body))) => half.on_frame(kind, &body, judge, out),
            Err(refusal) => Err(refusal),
        };
        match step {
            Ok(Progress::More) => {}
            Ok(done) => {
                half.end().over = true;
                return done;
            }
            Err(refusal) => return half.refuse(refusal, out),
        }
    }
    Progress::More
}

const PROOF_OF_THE_DIALLED: &[u8] = b"rubato channel: proof of the node that was dialled";
const PROOF_OF_THE_DIALLING: &[u8] = b"rubato channel: proof of the node that dials";
const ACCEPTANCE: &[u8] = b"rubato channel: accepted";
const REFUSAL_OF_THE_DIALLED: &[u8] = b"rubato channel: refusal of the node that was dialled";
const REFUSAL_OF_THE_DIALLING: &[u8] = b"rubato channel: refusal of the node that dials";
const PROOF_BYTES: usize = size_of::<Key>();
const KEYS: &[u8] = b"rubato channel: keys";
/// What the keys of the two directions are made with.
const FROM_DIALLING: &[u8] = b"from the node that dials";
const FROM_DIALLED: &[u8] = b"from the node that was dialled";

/// The end that dials.
#[derive(Debug)]
pub struct Dialling {
    end: End,
    dialled: Option<NodeId>,
    card: Card,
    /// Who answered, and the version, once the proof is out.
    answered: Option<(Card, u16)>,
}

impl Dialling {
    /// Begins a hello; what is to be written goes to `out`. `dialled` is who should answer, if that is known; the nonce is random and used once.
    pub fn new(
        identity: Arc<Identity>,
        dialled: Option<NodeId>,
        nonce: Key,
        now_us: u64,
        out: &mut Vec<u8>,
    ) -> Dialling {
        let card = Card::of(&identity, nonce);
        let mut end = End::new(identity, [REFUSAL_OF_THE_DIALLING, REFUSAL_OF_THE_DIALLED], now_us);
        out.extend_from_slice(&MAGIC);
        let mut body = Vec::new();
        card.put(&mut body);
        end.say(out, HELLO, &body);
        end.hear(HELLO, &body);
        Dialling {
            end,
            dialled,
            card,
            answered: None,
        }
    }

    /// Whether the proof is out: the other end may have accepted by now.
    pub fn has_proved(&self) -> bool {
        self.answered.is_some()
    }

    /// Takes bytes of the other end; what is to be written goes to `out`.
    pub fn on_bytes(&mut self, bytes: &[u8], judge: Judge<'_>, out: &mut Vec<u8>) -> Progress {
        drive(self, bytes, judge, out)
    }

    /// Gives up after [`HELLO_TIME_US`].
    pub fn on_timer(&mut self, now_us: u64, out: &mut Vec<u8>) -> Option<Refusal> {
        self.end.too_slow(now_us, out)
    }

    /// When it gives up.
    pub fn until_us(&self) -> u64 {
        self.end.until_us
    }

    fn on_welcome(&mut self, body: &[u8], judge: Judge<'_>) -> Result<(Card, u16), Refusal> {
        let (version, card, proof) = hello::read_welcome(body).map_err(Refusal::Damaged)?;
        if Some(version) != self.card.versions.common(card.versions) {
            return Err(Refusal::Downgrade(version));
        }
        self.end.examine(&card)?;
        if let Some(dialled) = self.dialled.filter(|dialled| *dialled != card.node) {
            return Err(Refusal::OtherNode {
                dialled,
                answers: card.node,
            });
        }
        self.end.hear(WELCOME, &body[..body.len() - proof.len()]);
        if !self.end.proves(PROOF_OF_THE_DIALLED, &proof) {
            return Err(Refusal::WrongSecret(card.node));
        }
        // Before it is judged: a refusal is proved over all that both ends have said.
        self.end.hear(WELCOME, &proof);
        judge(card.claim())?;
        Ok((card, version))
    }
}

impl Half for Dialling {
    fn end(&mut self) -> &mut End {
        &mut self.end
    }

    fn on_frame(&mut self, kind: u8, body: &[u8], judge: Judge<'_>, out: &mut Vec<u8>) -> Result<Progress, Refusal> {
        match (kind, self.answered.take()) {
            (REFUSED, _) => Err(self.end.on_refused(body)),
            (WELCOME, None) => {
                self.answered = Some(self.on_welcome(body, judge)?);
                let proof = self.end.derive(PROOF_OF_THE_DIALLING);
                self.end.say(out, PROOF, &proof);
                self.end.hear(PROOF, &proof);
                Ok(Progress::More)
            }
            (ACCEPTED, Some((card, version))) => match self.end.proves(ACCEPTANCE, body) {
                true => Ok(self.end.greeted(&card, version, [FROM_DIALLING, FROM_DIALLED])),
                false => Err(Refusal::WrongSecret(card.node)),
            },
            _ => Err(Refusal::OutOfTurn),
        }
    }

    fn refuse(&mut self, refusal: Refusal, out: &mut Vec<u8>) -> Progress {
        self.end.refuse(refusal, out)
    }
}

/// The end that was dialled.
#[derive(Debug)]
pub struct Accepting {
    end: End,
    nonce: Key,
    /// Whether this end has said anything yet: its magic goes before it.
    spoken: bool,
    /// Who dialled, and the version, once this end has answered.
    dialling: Option<(Card, u16)>,
}

impl Accepting {
    /// Waits for a hello. The nonce is random and used once.
    pub fn new(identity: Arc<Identity>, nonce: Key, now_us: u64) -> Accepting {
        Accepting {
            end: End::new(identity, [REFUSAL_OF_THE_DIALLED, REFUSAL_OF_THE_DIALLING], now_us),
            nonce,
            spoken: false,
            dialling: None,
        }
    }

    /// Takes bytes of the other end; what is to be written goes to `out`.
    pub fn on_bytes(&mut self, bytes: &[u8], judge: Judge<'_>, out: &mut Vec<u8>) -> Progress {
        drive(self, bytes, judge, out)
    }

    /// Gives up after [`HELLO_TIME_US`].
    pub fn on_timer(&mut self, now_us: u64, out: &mut Vec<u8>) -> Option<Refusal> {
        let begun = self.spoken;
        let mut told = Vec::new();
        let refusal = self.end.too_slow(now_us, &mut told)?;
        // Who said nothing that begins a hello is told nothing.
        if begun {
            out.append(&mut told);
        }
        Some(refusal)
    }

    /// When it gives up.
    pub fn until_us(&self) -> u64 {
        self.end.until_us
    }

    fn speak(&mut self, out: &mut Vec<u8>) {
        if !self.spoken {
            out.extend_from_slice(&MAGIC);
            self.spoken = true;
        }
    }

    fn on_hello(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<(Card, u16), Refusal> {
        let (theirs, version) = hello::read_hello(body, self.end.identity.versions)?;
        self.end.examine(&theirs)?;
        self.end.hear(HELLO, body);
        let mut welcome = Vec::new();
        welcome.extend_from_slice(&version.to_le_bytes());
        Card::of(&self.end.identity, self.nonce).put(&mut welcome);
        self.end.hear(WELCOME, &welcome);
        let proof = self.end.derive(PROOF_OF_THE_DIALLED);
        self.end.hear(WELCOME, &proof);
        welcome.extend_from_slice(&proof);
        self.speak(out);
        self.end.say(out, WELCOME, &welcome);
        Ok((theirs, version))
    }
}

impl Half for Accepting {
    fn end(&mut self) -> &mut End {
        &mut self.end
    }

    fn on_frame(&mut self, kind: u8, body: &[u8], judge: Judge<'_>, out: &mut Vec<u8>) -> Result<Progress, Refusal> {
        match (kind, self.dialling.take()) {
            // Who has said no hello has nothing to refuse, and is not heard.
            (REFUSED, Some(_)) => Err(self.end.on_refused(body)),
            (HELLO, None) => {
                self.dialling = Some(self.on_hello(body, out)?);
                Ok(Progress::More)
            }
            (PROOF, Some((card, version))) => {
                if !self.end.proves(PROOF_OF_THE_DIALLING, body) {
                    return Err(Refusal::WrongSecret(card.node));
                }
                self.end.hear(PROOF, body);
                judge(card.claim())?;
                let acceptance = self.end.derive(ACCEPTANCE);
                self.end.say(out, ACCEPTED, &acceptance);
                Ok(self.end.greeted(&card, version, [FROM_DIALLED, FROM_DIALLING]))
            }
            _ => Err(Refusal::OutOfTurn),
        }
    }

    fn refuse(&mut self, refusal: Refusal, out: &mut Vec<u8>) -> Progress {
        if !matches!(refusal, Refusal::PostgresClient | Refusal::NoNode) {
            self.speak(out);
        }
        self.end.refuse(refusal, out)
    }
}
