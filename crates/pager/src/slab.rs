//! A vector with reusable places.

/// Places are reused last in, first out; indices of living values do not change.
pub(crate) struct SlotMap<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for SlotMap<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> SlotMap<T> {
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(i) => {
                self.places[i as usize] = Some(value);
                i
            }
            None => {
                // The ledger's charge for tables ends a run long before 2^32 places of tens of bytes.
                let i = self.places.len() as u32;
                self.places.push(Some(value));
                i
            }
        }
    }

    pub(crate) fn remove(&mut self, i: u32) -> Option<T> {
        let value = self.places.get_mut(i as usize)?.take()?;
        self.free.push(i);
        Some(value)
    }

    pub(crate) fn get(&self, i: u32) -> Option<&T> {
        self.places.get(i as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, i: u32) -> Option<&mut T> {
        self.places.get_mut(i as usize)?.as_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.places.iter().enumerate().filter_map(|(i, v)| Some((i as u32, v.as_ref()?)))
    }

    /// Bytes of the vector.
    pub(crate) fn bytes(&self) -> usize {
        self.places.capacity() * size_of::<Option<T>>() + self.free.capacity() * 4
    }
}
