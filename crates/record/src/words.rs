//! Words with a fixed meaning, in plans and files.

/// An enum whose variants are words: what [`altway_document::words`] makes, serde and an axis of a plan.
macro_rules! words {
    ( $(#[$meta:meta])* $name:ident, $what:literal { $($variants:tt)+ } ) => {
        ::altway_document::words! {
            $(#[$meta])*
            $name, $what { $($variants)+ }
        }

        $crate::words::text_in_files!($name);

        impl $crate::axis::AxisValue for $name {
            fn read(text: &str) -> Result<Self, String> {
                text.parse::<Self>().map_err(|error| error.to_string())
            }
        }
    };
}
pub(crate) use words;

/// Gives a type the serde form of its text: what `Display` writes and `FromStr` reads.
macro_rules! text_in_files {
    ($name:ident) => {
        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?
                    .parse()
                    .map_err(::serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use text_in_files;
