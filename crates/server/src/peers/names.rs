//! Names of other nodes are looked up on threads of their own: a name server that does not answer holds up nothing else.

use super::News;
use rubato_grid::links::ConnectionId;
use rubato_stages::worker::Wake;
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Names that are looked up at a time.
const LOOK_UPS_MAX: usize = 16;

type Found = (ConnectionId, io::Result<SocketAddr>);

/// Names under way.
pub(super) struct Names {
    sender: Sender<Found>,
    found: Receiver<Found>,
    /// Connections that still want the address of their name.
    wanted: BTreeSet<ConnectionId>,
    /// Threads that have not said what they found.
    under_way: usize,
}

impl Default for Names {
    fn default() -> Names {
        let (sender, found) = channel();
        Names {
            sender,
            found,
            wanted: BTreeSet::new(),
            under_way: 0,
        }
    }
}

impl Names {
    /// Looks a name up for a connection; there are news when it is found, or is not.
    ///
    /// Errors: too many names are looked up, or the system has no thread for it.
    pub(super) fn look_up(&mut self, id: ConnectionId, name: &str, news: &Arc<News>) -> io::Result<()> {
        if self.under_way >= LOOK_UPS_MAX {
            let message = "other names have been looked up for too long: does the name server answer?";
            return Err(io::Error::new(ErrorKind::TimedOut, message));
        }
        let (name, sender, news) = (name.to_owned(), self.sender.clone(), Arc::clone(news));
        let look = move || {
            let found = name.to_socket_addrs().and_then(|mut found| {
                let none = || io::Error::new(ErrorKind::NotFound, "the name has no address");
                found.next().ok_or_else(none)
            });
            // Nobody hears it where the node has stopped.
            if sender.send((id, found)).is_ok() {
                news.wake();
            }
        };
        std::thread::Builder::new().name("names".to_owned()).spawn(look)?;
        self.under_way += 1;
        self.wanted.insert(id);
        Ok(())
    }

    /// The connection is given up.
    pub(super) fn forget(&mut self, id: ConnectionId) {
        self.wanted.remove(&id);
    }

    /// What was found for a connection that is not given up.
    pub(super) fn poll_found(&mut self) -> Option<Found> {
        while let Ok(found) = self.found.try_recv() {
            self.under_way = self.under_way.saturating_sub(1);
            if self.wanted.remove(&found.0) {
                return Some(found);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::port::WorkerPort;
    use mio::{Events, Poll, Token, Waker};
    use std::time::Duration;

    #[test]
    fn a_name_is_found_and_one_that_is_not_wanted_any_more_is_not_told() {
        let mut poll = Poll::new().unwrap();
        let port = Arc::new(WorkerPort::new(Waker::new(poll.registry(), Token(0)).unwrap()));
        let news = Arc::new(News::of(Arc::clone(&port)));
        news.take();
        let mut names = Names::default();
        names.look_up(ConnectionId(1), "localhost:9", &news).unwrap();
        names.look_up(ConnectionId(2), "localhost:9", &news).unwrap();
        names.look_up(ConnectionId(3), "no port", &news).unwrap();
        names.forget(ConnectionId(2));
        let (mut events, mut found) = (Events::with_capacity(4), Vec::new());
        while names.under_way > 0 {
            port.fall_asleep();
            poll.poll(&mut events, Some(Duration::from_secs(5))).unwrap();
            port.wake_up();
            found.extend(std::iter::from_fn(|| names.poll_found()));
        }
        assert!(news.take());
        found.sort_by_key(|(id, _)| *id);
        let [(ConnectionId(1), Ok(address)), (ConnectionId(3), Err(_))] = &found[..] else {
            panic!("{found:?}");
        };
        assert!(address.ip().is_loopback() && address.port() == 9);
        // A name server that answers nobody is not asked for ever.
        names.under_way = LOOK_UPS_MAX;
        assert!(names.look_up(ConnectionId(4), "localhost:9", &news).is_err());
    }
}
