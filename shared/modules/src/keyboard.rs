//! keyboard: the layout of the keyboard, for the console and X.

use distro::{Family, Keymap};
use system::{Result, debug};

use crate::services::activation::{Activation, is_changed};
use crate::values::text_values::text_types;
use crate::{Context, Frequency, Module};

pub const MODULE: Module =
    Module::if_set::<Keys>("keyboard", Frequency::Instance, run).repeatable().where_distro(|distro| {
        use Family::{Alpine, Arch, Debian, RedHat, Suse};
        matches!(distro.family, Alpine | Arch | Debian | RedHat | Suse)
    });

config::keys! {
    pub struct Keyboard {
        /// The layout, such as `us`.
        layout: Name;
        /// The model. On Alpine the default is empty.
        model: Option<Name> = "pc105";
        /// The variant of the layout.
        variant: Option<Name>;
        /// Options, separated by commas.
        options: Option<Name>;
    }
    pub struct Keys {
        /// The keyboard layout.
        keyboard: Option<Keyboard>;
    }
}

text_types! {
    /// A name of xkeyboard-config(7). Quotes, for example, would end the value in keyboard(5), which is a shell's syntax.
    pub struct Name: "a name of xkeyboard-config(7)", |text| {
        let is_valid = |c: char| c.is_ascii_alphanumeric() || "_-+.,:()/".contains(c);
        text.chars().all(is_valid) && !text.starts_with('-') && !text.split('/').any(|part| part == "..")
    };
}

fn run(context: &Context<'_>) -> Result<()> {
    let Some(wanted) = context.fully_valid_key(|k: Keys| k.keyboard)? else { return Ok(()) };
    if wanted.layout.0.is_empty() {
        return Err(system::Error::new("keyboard.layout is empty; module skipped"));
    }
    let has_model = context.config.at_path(&["keyboard", "model"]).is_some_and(|n| !n.is_null());
    let text = |name: Option<Name>| name.map(|n| n.0).unwrap_or_default();
    debug!(context.sys, "Setting keyboard layout to '{}'", wanted.layout.0);
    let keymap = Keymap {
        layout: wanted.layout.0,
        model: wanted.model.filter(|_| has_model).map(|n| n.0),
        variant: text(wanted.variant),
        options: text(wanted.options),
    };
    let Keymap { layout, model, variant, options } = &keymap;
    let settings = [layout, model.as_deref().unwrap_or_default(), variant, options];
    let activation = Activation::begin(context, "keyboard", &settings);
    let change = context.distro.write_keymap(context.sys, &keymap)?;
    activation.finish(is_changed(change), || context.distro.apply_keymap(context.sys, &keymap).map(|()| true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::{FromNode, Node, Reader};

    #[test]
    fn names_end_no_value_of_a_shell() {
        for (text, is_name) in [("us", true), ("a,b(c):d/e", true), ("us\"; x", false), ("a$b", false)] {
            assert_eq!(Name::read(&Node::from(text), &mut Reader::new()).is_some(), is_name, "{text}");
        }
    }
}
