//! Enums whose variants have a word each, as outputs and filters write them.

/// Defines an enum, with the word of each variant beside it. The program has such enums too, so the
/// macro is exported.
#[doc(hidden)]
#[macro_export]
macro_rules! words {
    ($(#[$enum_attribute:meta])* pub enum $name:ident {
        $($(#[$attribute:meta])* $variant:ident = $word:literal,)*
    }) => {
        $(#[$enum_attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$attribute])* $variant,)* }

        impl $name {
            /// All variants with their words, in the order of their definition.
            pub const NAMES: [($name, &'static str); [$($word),*].len()] = [$(($name::$variant, $word)),*];

            /// The word of this variant.
            pub fn name(self) -> &'static str {
                Self::NAMES[self as usize].1
            }
        }
    };
}
