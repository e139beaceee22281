//! The variables of a container by their plain names: in the image nobody else reads them, so that `PORT`
//! can mean altway's. Outside of it they are other programs' as well, and only `ALTWAY_PORT` counts.

use clap::Command;

/// The variable that the image sets.
const MARK: &str = "ALTWAY_CONTAINER";

/// Options of `altway serve` with their variables: everywhere, and in the image.
const VARIABLES: [(&str, &str, &str); 3] = [
    ("port", "ALTWAY_PORT", "PORT"),
    ("threads", "ALTWAY_THREADS", "THREADS"),
    ("run_mode", "ALTWAY_RUN_MODE", "RUN_MODE"),
];

/// The command line as it is read here.
pub(crate) fn variables(command: Command) -> Command {
    with_plain_names(command, |name| std::env::var_os(name).is_some())
}

/// A plain name counts where the full one is not set.
fn with_plain_names(command: Command, is_set: impl Fn(&str) -> bool) -> Command {
    if !is_set(MARK) {
        return command;
    }
    command.mut_subcommand("serve", |serve| {
        let plain = VARIABLES
            .iter()
            .filter(|(_, full, plain)| !is_set(full) && is_set(plain));
        plain.fold(serve, |serve, (option, _, plain)| {
            serve.mut_arg(option, |argument| argument.env(plain))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// The variable that an option of `serve` is read from, where these are set.
    fn read_from(option: &str, set: &[&str]) -> String {
        let command = with_plain_names(crate::Arguments::command(), |name| set.contains(&name));
        let serve = command.find_subcommand("serve").unwrap();
        let mut arguments = serve.get_arguments();
        let found = arguments
            .find(|argument| argument.get_id() == option)
            .unwrap();
        found.get_env().unwrap().to_str().unwrap().to_owned()
    }

    #[test]
    fn plain_names_count_in_the_image_alone() {
        assert_eq!(read_from("port", &["PORT"]), "ALTWAY_PORT");
        for (option, full, plain) in VARIABLES {
            assert_eq!(read_from(option, &[MARK, plain]), plain);
            assert_eq!(read_from(option, &[MARK, plain, full]), full);
            assert_eq!(read_from(option, &[MARK]), full);
        }
    }
}
