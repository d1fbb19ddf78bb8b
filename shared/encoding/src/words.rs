//! Enumerations whose variants have words, in a configuration, a file or the log.

/// Declares enumerations with a word for each variant, which is also the displayed form.
///
/// ```
/// encoding::words! {
///     /// The answer to a question.
///     pub enum Answer {
///         /// Agreement.
///         Yes = "yes",
///         /// Refusal.
///         No = "no",
///     }
/// }
/// assert_eq!(Answer::Yes.as_str(), "yes");
/// assert_eq!(Answer::from_word("no"), Some(Answer::No));
/// assert_eq!(Answer::from_word("maybe"), None);
/// ```
#[macro_export]
macro_rules! words {
    ($(
        $(#[$meta:meta])*
        $vis:vis enum $type:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }
    )*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $type { $($(#[$doc])* $variant,)* }

        impl $type {
            /// Returns the word.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($type::$variant => $word,)*
                }
            }

            /// Returns the variant with this word.
            pub fn from_word(word: &str) -> Option<$type> {
                [$($type::$variant,)*].into_iter().find(|variant| variant.as_str() == word)
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    )*};
}
