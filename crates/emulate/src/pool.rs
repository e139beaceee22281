//! The memory that holds packets while they are in the link.

/// The most packets in the link at once, both directions together: twice what 1 Gbit/s with 400 ms
/// of delay holds.
const MOST_PACKETS: usize = 65_536;

/// The most bytes of address space; memory is used only for as many packets as there ever were at
/// once.
const MOST_BYTES: usize = 256 << 20;

/// A place in the pool that holds one packet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    index: u32,
    length: u32,
}

/// A fixed number of equal places for packets.
///
/// The one that was freed last is used first, so that a link with few packets in it stays within
/// the processor's cache.
#[derive(Debug)]
pub(crate) struct Pool {
    memory: Vec<u8>,
    slot_size: usize,
    free: Vec<Slot>,
}

impl Pool {
    /// Room for packets of up to `slot_size` bytes.
    pub(crate) fn new(slot_size: usize) -> Self {
        // Whole cache lines, so that two packets never share one.
        let slot_size = slot_size.next_multiple_of(64);
        let slots = MOST_PACKETS.min(MOST_BYTES / slot_size);
        let slot = |index| Slot { index, length: 0 };
        Self {
            // Zeroed memory comes from the kernel, which supplies pages when they are touched.
            memory: vec![0; slots * slot_size],
            slot_size,
            free: (0..u32::try_from(slots).unwrap_or(u32::MAX))
                .rev()
                .map(slot)
                .collect(),
        }
    }

    /// Lets `fill` write a packet into a free slot. `None` when there is none free or when `fill`
    /// returns `None`.
    pub(crate) fn fill<E>(
        &mut self,
        fill: impl FnOnce(&mut [u8]) -> Result<Option<usize>, E>,
    ) -> Result<Option<Slot>, E> {
        let Some(mut slot) = self.free.pop() else {
            return Ok(None);
        };
        let filled = fill(&mut self.memory[range(&slot, self.slot_size)]);
        if let Ok(Some(length)) = filled {
            slot.length = u32::try_from(length).expect("at most the size of a slot");
            return Ok(Some(slot));
        }
        self.free.push(slot);
        filled.map(|_| None)
    }

    /// A second slot with the same packet. `None` when there is none free.
    pub(crate) fn copy(&mut self, slot: &Slot) -> Option<Slot> {
        let mut copy = self.free.pop()?;
        copy.length = slot.length;
        let start = range(slot, self.slot_size).start;
        self.memory.copy_within(
            start..start + slot.len(),
            range(&copy, self.slot_size).start,
        );
        Some(copy)
    }

    /// Frees a slot.
    pub(crate) fn put_back(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    /// Returns whether there is no slot free.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.free.is_empty()
    }

    /// The packet in a slot, to be changed.
    pub(crate) fn packet_mut(&mut self, slot: &Slot) -> &mut [u8] {
        &mut self.memory[range(slot, self.slot_size)][..slot.len()]
    }

    /// The packet in a slot.
    pub(crate) fn packet(&self, slot: &Slot) -> &[u8] {
        &self.memory[range(slot, self.slot_size)][..slot.len()]
    }
}

impl Slot {
    /// The length of the packet in bytes.
    pub(crate) fn len(&self) -> usize {
        self.length as usize
    }
}

fn range(slot: &Slot, size: usize) -> std::ops::Range<usize> {
    let start = slot.index as usize * size;
    start..start + size
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(pool: &mut Pool, packet: &[u8]) -> Option<Slot> {
        let write = |buffer: &mut [u8]| {
            buffer[..packet.len()].copy_from_slice(packet);
            Ok::<_, ()>(Some(packet.len()))
        };
        pool.fill(write).unwrap()
    }

    #[test]
    fn keeps_packets_apart() {
        let mut pool = Pool::new(1_500);
        let (first, second) = (
            fill(&mut pool, b"first").unwrap(),
            fill(&mut pool, b"2").unwrap(),
        );
        assert_eq!(pool.packet(&first), b"first");
        assert_eq!(pool.packet(&second), b"2");
    }

    #[test]
    fn uses_the_slot_that_was_freed_last() {
        let mut pool = Pool::new(1_500);
        let slot = fill(&mut pool, b"a").unwrap();
        let index = slot.index;
        pool.put_back(slot);
        assert_eq!(fill(&mut pool, b"b").unwrap().index, index);
    }

    #[test]
    fn a_copy_is_a_packet_of_its_own() {
        let mut pool = Pool::new(1_500);
        let slot = fill(&mut pool, b"same").unwrap();
        let copy = pool.copy(&slot).unwrap();
        pool.packet_mut(&copy)[0] = b'n';
        assert_eq!(pool.packet(&copy), b"name");
        assert_eq!(pool.packet(&slot), b"same");
    }

    #[test]
    fn a_failed_or_empty_read_loses_no_slot() {
        let mut pool = Pool::new(1_500);
        assert_eq!(pool.fill(|_| Err("broken")), Err("broken"));
        assert_eq!(pool.fill(|_| Ok::<_, ()>(None)), Ok(None));
        assert_eq!(pool.free.len(), MOST_PACKETS);
    }

    #[test]
    fn is_bounded_in_packets_and_in_bytes() {
        let mut pool = Pool::new(65_535);
        assert_eq!(pool.free.len(), MOST_BYTES / 65_536);
        while fill(&mut pool, b"x").is_some() {}
        assert!(pool.is_exhausted());
    }
}
