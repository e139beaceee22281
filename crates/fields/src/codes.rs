//! Error codes of a protocol: numbers of an open set, some of which have a name.

/// Defines `Code`, an error code of a stream or a connection, with a constant for each code that has a name. Peers may
/// send codes that no RFC names, so it wraps the number instead of enumerating.
///
/// The protocol adds its own `Code::new`, which knows the range.
#[macro_export]
macro_rules! error_codes {
    (
        $(#[$about_all:meta])*
        pub struct Code($number:ty);

        $($(#[$about:meta])* $name:ident = $value:literal,)*
    ) => {
        $(#[$about_all])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct Code($number);

        impl Code {
            $($(#[$about])* pub const $name: Code = Code($value);)*

            /// The number on the wire.
            #[must_use]
            pub const fn get(self) -> $number {
                self.0
            }

            /// The RFC's name, if it has one.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Code::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }

        impl ::std::fmt::Display for Code {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "{:#x}", self.0),
                }
            }
        }

        impl ::std::fmt::Debug for Code {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Display::fmt(self, f)
            }
        }
    };
}
