//! Enums whose variants have a word each, as outputs and filters write them.

/// Defines an enum, with the word of each variant beside it. The program has such enums too, so the
/// macro is exported.
#[doc(hidden)]
#[macro_export]
macro_rules! words {
    ($(#[$enum_attribute:meta])* $visibility:vis enum $name:ident {
        $($(#[$attribute:meta])* $variant:ident = $word:literal,)*
    }) => {
        $(#[$enum_attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $visibility enum $name { $($(#[$attribute])* $variant,)* }

        #[allow(dead_code, reason = "not every such enum is listed, or read from a word")]
        impl $name {
            /// All variants, in the order of their definition.
            pub const ALL: [$name; [$($word),*].len()] = [$($name::$variant),*];

            /// The word of this variant.
            pub fn name(self) -> &'static str {
                [$($word),*][self as usize]
            }

            /// The variant with this word.
            pub fn named(word: &str) -> Option<$name> {
                Self::ALL.into_iter().find(|variant| variant.name() == word)
            }
        }
    };
}
