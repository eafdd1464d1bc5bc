//! What makes several nodes a grid, without sockets, clocks and files: those come in as arguments, so that the same code runs in the
//! server and in virtual time.
