//! What nodes say to each other beside transactions and work.

use super::*;

impl Choices<'_> {
    fn sixteen(&mut self) -> [u8; 16] {
        std::array::from_fn(|_| self.byte())
    }

    fn members(&mut self) -> Members {
        let member = |choices: &mut Self| {
            let (applicant, address) = (choices.sixteen(), choices.text());
            (NodeId(choices.small()), Member { address, applicant })
        };
        let (grid, version) = (GridId(self.sixteen()), self.number());
        let entries: Vec<_> = (0..self.of(4)).map(|_| member(self)).collect();
        Members::of_entries(grid, version, entries)
    }

    pub(super) fn member_message(&mut self) -> MemberMessage {
        match self.of(9) {
            7 => MemberMessage::Listed(self.number()),
            0 => MemberMessage::Admitted(NodeId(self.small()), self.members()),
            1 => MemberMessage::AskAt(self.text()),
            2 => MemberMessage::NotAdmitted(self.text()),
            3 => MemberMessage::List(self.members()),
            4 => MemberMessage::MovedTo(self.text()),
            5 => MemberMessage::Written(self.number()),
            6 => MemberMessage::SeenAt(NodeId(self.small()), self.text()),
            _ => MemberMessage::Apply {
                applicant: self.sixteen(),
                address: self.text(),
            },
        }
    }

    pub(super) fn catalog_message(&mut self) -> CatalogMessage {
        let version = self.number();
        let content = self.text().into_bytes();
        match self.of(4) {
            0 => CatalogMessage::Have(version),
            1 => CatalogMessage::TakenOver(version),
            2 => CatalogMessage::HandOver {
                last_tick: self.timestamp(),
                content,
                last_node: NodeId(self.small()),
            },
            _ => CatalogMessage::All {
                version,
                last_tick: self.timestamp(),
                content,
            },
        }
    }

    pub(super) fn onward(&mut self) -> GridMessage {
        let (from, to) = (NodeId(self.small()), NodeId(self.small()));
        let said = match self.of(4) {
            3 => Onward::Transaction(Message {
                transaction: GlobalId {
                    tick: self.timestamp(),
                    coordinator: NodeId(self.small()),
                },
                body: match self.of(4) {
                    0 => Body::Reply(Reply::Inquire),
                    1 => Body::Reply(Reply::Done),
                    2 => Body::Passed(self.passed()),
                    _ => Body::Request(Request::Decide(self.place())),
                },
            }),
            0 => Onward::Stage(self.stage_message()),
            1 => Onward::Numbers(self.numbers_message()),
            _ => Onward::Agreement(self.agreement_message()),
        };
        GridMessage::Onward(OnwardMessage { from, to, said })
    }

    pub(super) fn numbers_message(&mut self) -> NumbersMessage {
        let (session, number) = (self.number(), self.number());
        match self.of(3) {
            0 => NumbersMessage::Wanted {
                session,
                number,
                sequence: self.small(),
                count: self.small(),
            },
            1 => NumbersMessage::Given {
                session,
                number,
                outcome: Err(self.error()),
            },
            _ => NumbersMessage::Given {
                session,
                number,
                outcome: Ok((0..self.of(5)).map(|_| self.number() as i64).collect()),
            },
        }
    }

    fn proposed(&mut self) -> Proposed {
        Proposed {
            term: self.number(),
            number: self.number(),
        }
    }

    pub(super) fn agreement_message(&mut self) -> AgreementMessage {
        let (term, has) = (self.number(), self.proposed());
        match self.of(5) {
            0 => AgreementMessage::Stand {
                term,
                has,
                is_trial: self.truth(),
            },
            1 => AgreementMessage::Vote {
                term,
                of: self.number(),
                is_trial: self.truth(),
                is_granted: self.truth(),
            },
            2 => AgreementMessage::Lead {
                term,
                round: self.number(),
                has,
                agreed: self.number(),
                value: self.truth().then(|| Agreed {
                    tick_bound: self.timestamp(),
                    catalogs: self.number(),
                    catalogs_tick: self.timestamp(),
                    voters: (0..self.of(6)).map(|_| NodeId(self.small())).collect(),
                }),
            },
            3 => AgreementMessage::Follow {
                term,
                round: self.number(),
                has,
            },
            _ => AgreementMessage::Catalogs(term),
        }
    }

    pub(super) fn sessions_message(&mut self) -> SessionsMessage {
        let (session, number) = (self.number(), self.number());
        match self.of(3) {
            0 => SessionsMessage::Wanted {
                session,
                number,
                views: self.of(16),
                database: self.small(),
            },
            1 => SessionsMessage::Given {
                session,
                number,
                rows: (0..self.of(3)).map(|view| (view, self.values(3))).collect(),
            },
            _ => SessionsMessage::Signal {
                backend_id: self.small() as i32,
                asked: match self.of(3) {
                    0 => Asked::Cancel,
                    1 => Asked::Terminate,
                    _ => Asked::CancelBy(self.small() as i32),
                },
            },
        }
    }

    pub(super) fn tell_message(&mut self) -> TellMessage {
        let (life, number) = (self.number(), self.number());
        match self.truth() {
            true => TellMessage::Taken { life, number },
            false => TellMessage::Told {
                life,
                number,
                oldest: self.number(),
                telling: Telling {
                    database: self.small(),
                    backend_id: self.small() as i32,
                    told: self.texts(),
                },
            },
        }
    }
}
