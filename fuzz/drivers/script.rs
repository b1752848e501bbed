//! Random bytes read as a script: numbers as long as there are any, then zeros.

/// What is left of the bytes.
#[derive(Debug)]
pub struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    /// A script of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether it has come to its end.
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// Up to so many bytes.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, left) = self.0.split_at(count.min(self.0.len()));
        self.0 = left;
        taken
    }

    /// A number of `N` bytes, filled up with zeros.
    fn number<const N: usize>(&mut self) -> [u8; N] {
        let mut all = [0; N];
        let taken = self.bytes(N);
        all[..taken.len()].copy_from_slice(taken);
        all
    }

    /// One byte.
    pub fn byte(&mut self) -> u8 {
        self.number::<1>()[0]
    }

    /// Two bytes.
    pub fn short(&mut self) -> u16 {
        u16::from_le_bytes(self.number())
    }

    /// Eight bytes.
    pub fn long(&mut self) -> u64 {
        u64::from_le_bytes(self.number())
    }

    /// A number that is small, negative, or at an edge: what constructors trip over.
    pub fn count(&mut self) -> i64 {
        match self.byte() {
            byte @ 0..=199 => i64::from(byte % 9),
            byte @ 200..=229 => -i64::from(byte % 7),
            230..=239 => i64::from(self.short()),
            240 => i64::from(i32::MAX),
            241 => i64::from(i32::MIN),
            242 => i64::MAX,
            243 => i64::MIN,
            244 => i64::MAX / 8,
            245 => 1 << 31,
            _ => self.long().cast_signed(),
        }
    }

    /// Up to four of them.
    pub fn counts(&mut self, many: usize) -> Box<[i64]> {
        (0..many).map(|_| self.count()).collect()
    }
}
