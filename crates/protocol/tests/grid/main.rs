//! The parts of a grid by themselves: messages that do not belong, and the rules of places.

mod circles;
mod laying;
mod messages;
mod places;
mod relay;
mod sessions;
mod several;
mod site;
mod timeouts;
