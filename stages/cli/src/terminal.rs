//! The writer of everything that a person reads: the standard macros, which in this crate escape what would change the
//! display of a terminal, as names and messages may come from a foreign file. `std::print!` writes data that another
//! program reads, unchanged. A name is also a single line ([`system::single_line`]).

macro_rules! print {
    ($($text:tt)*) => { std::print!("{}", system::printable(&format!($($text)*))) };
}

macro_rules! println {
    () => { std::println!() };
    ($($text:tt)*) => { std::println!("{}", system::printable(&format!($($text)*))) };
}

macro_rules! eprint {
    ($($text:tt)*) => { std::eprint!("{}", system::printable(&format!($($text)*))) };
}

macro_rules! eprintln {
    () => { std::eprintln!() };
    ($($text:tt)*) => { std::eprintln!("{}", system::printable(&format!($($text)*))) };
}
