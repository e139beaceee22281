//! The link model: rate, queue, loss and delay of one direction, seeded and sans-IO
