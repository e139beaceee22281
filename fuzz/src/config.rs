//! Configurations by bytes: limits small enough that an input of a few bytes reaches them.

use altway_http2::{Config, Floods, Rate};

use crate::input::Input;

/// Reads a configuration; an input that has ended gives the default.
pub(crate) fn read(input: &mut Input<'_>) -> Config {
    let default = Config::default();
    Config {
        max_concurrent_streams: input.choose(&[default.max_concurrent_streams, 1, 2, 5, 20]),
        max_header_list_size: input.choose(&[default.max_header_list_size, 0, 200, 1000]),
        header_table_size: input.choose(&[default.header_table_size, 0, 64, 200, 10_000]),
        stream_window: input.choose(&[default.stream_window, 256, 1000, 65_535, 100_000]),
        connection_window: input.choose(&[default.connection_window, 0, 65_535, 80_000]),
        max_stream_window: input.choose(&[default.max_stream_window, 0, 2000, 200_000]),
        max_connection_window: input.choose(&[default.max_connection_window, 0, 100_000]),
        max_data_payload: input.choose(&[default.max_data_payload, 64, 1000, 20_000]),
        extended_connect: input.byte() % 2 == 1,
        timeouts: default.timeouts,
        scheme: None,
        floods: floods(input.byte()),
    }
}

fn floods(choice: u8) -> Floods {
    let default = Floods::default();
    if choice.is_multiple_of(2) {
        return default;
    }
    let rate = |burst| Rate {
        burst,
        per_second: 1,
    };
    Floods {
        resets: rate(3),
        control: rate(20),
        max_continuations: 1,
    }
}
