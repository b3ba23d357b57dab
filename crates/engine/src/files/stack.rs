//! A list that is read without locks and grows and shrinks at its end: the files of a chain, the
//! pages of a directory.

use perdura_pmem::sync::Mutex;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Number of places in the first bucket; each further one has as many as all before it.
const FIRST: usize = 8;
/// The buckets have room for 2^39 elements.
const BUCKETS: usize = 37;

/// The list.
///
/// A reader may hold a reference to an element that is popped meanwhile. So popped elements stay in
/// memory until nobody can hold one: until the list goes, or its owner has it alone. Whoever pops
/// bounds their number.
///
/// Thread-safety: one thread at a time pushes or pops. An element is whole before its pointer is
/// stored (Release), and a reader loads the pointer with Acquire.
pub(crate) struct Stack<T> {
    /// Each null, or the first of the bucket's slots; an empty slot is null.
    buckets: [AtomicPtr<AtomicPtr<T>>; BUCKETS],
    length: AtomicUsize,
    popped: Mutex<Vec<Popped<T>>>,
    owns: PhantomData<T>,
}

/// An element that was popped, and that readers may still hold.
struct Popped<T>(*mut T);

// SAFETY: the pointer owns its element, which only Drop touches; `Stack` itself asks for Sync.
unsafe impl<T: Send> Send for Popped<T> {}

impl<T> Drop for Popped<T> {
    fn drop(&mut self) {
        // SAFETY: made by Box::into_raw and owned here alone; nobody holds a reference, as the
        // list's owner vouches for.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl<T> Default for Stack<T> {
    fn default() -> Stack<T> {
        Stack {
            buckets: [const { AtomicPtr::new(ptr::null_mut()) }; BUCKETS],
            length: AtomicUsize::new(0),
            popped: Mutex::default(),
            owns: PhantomData,
        }
    }
}

impl<T> Stack<T> {
    /// Number of elements.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.length.load(Ordering::Acquire)
    }

    /// Element `index`, if there is one.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        let element = self.slot(index)?.load(Ordering::Acquire);
        // SAFETY: null, or an element that lives as long as this borrow: popped ones stay until
        // `forget_popped`, which takes the list for itself.
        unsafe { element.as_ref() }
    }

    #[inline]
    fn slot(&self, index: usize) -> Option<&AtomicPtr<T>> {
        let (bucket, place, _) = locate(index);
        let slots = self.buckets.get(bucket)?.load(Ordering::Acquire);
        // SAFETY: a bucket has all slots that locate() names, from when it is stored until the list
        // goes.
        (!slots.is_null()).then(|| unsafe { &*slots.add(place) })
    }

    /// The elements in their order: those that are there as each is asked for.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        (0..).map_while(|index| self.get(index))
    }

    /// Appends an element. One thread at a time may push or pop.
    pub(crate) fn push(&self, element: T) {
        let index = self.len();
        let (bucket, _, length) = locate(index);
        if self.buckets[bucket].load(Ordering::Relaxed).is_null() {
            let slots: Box<[AtomicPtr<T>]> = (0..length).map(|_| AtomicPtr::default()).collect();
            self.buckets[bucket].store(Box::into_raw(slots).cast(), Ordering::Release);
        }
        let slot = self.slot(index).expect("a bucket was made for it");
        slot.store(Box::into_raw(Box::new(element)), Ordering::Release);
        self.length.store(index + 1, Ordering::Release);
    }

    /// Takes the last element off the list. One thread at a time may push or pop.
    pub(crate) fn pop(&self) -> Option<&T> {
        let index = self.len().checked_sub(1)?;
        let slot = self.slot(index).expect("an element is there");
        self.length.store(index, Ordering::Release);
        let element = slot.swap(ptr::null_mut(), Ordering::AcqRel);
        self.popped.lock().push(Popped(element));
        // SAFETY: as in get().
        unsafe { element.as_ref() }
    }

    /// Number of elements that were popped and stay in memory.
    pub(crate) fn popped(&self) -> usize {
        self.popped.lock().len()
    }

    /// Frees the elements that were popped: nobody can hold one.
    pub(crate) fn forget_popped(&mut self) {
        self.popped.lock().clear();
    }
}

impl<T> Drop for Stack<T> {
    fn drop(&mut self) {
        for (bucket, slots) in self.buckets.iter_mut().enumerate() {
            let slots = *slots.get_mut();
            if slots.is_null() {
                continue;
            }
            // SAFETY: made by Box::into_raw of a slice of this length, and the list is owned alone.
            let slots = unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(slots, FIRST << bucket)) };
            for element in slots.into_iter().map(AtomicPtr::into_inner).filter(|element| !element.is_null()) {
                drop(Popped(element));
            }
        }
    }
}

/// Bucket of an element, place in the bucket, and length of the bucket.
#[inline]
fn locate(index: usize) -> (usize, usize, usize) {
    let bucket = (index / FIRST + 1).ilog2() as usize;
    let first = ((1 << bucket) - 1) * FIRST;
    (bucket, index - first, FIRST << bucket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn each_element_has_a_place_of_its_own() {
        let mut expected = (0, 0);
        for index in 0..10_000 {
            let (bucket, place, length) = locate(index);
            assert_eq!((bucket, place), expected, "element {index}");
            expected = if place + 1 == length { (bucket + 1, 0) } else { (bucket, place + 1) };
        }
        assert!(locate((1 << 39) - 1).0 < BUCKETS);
    }

    /// Hazard: an element is freed under a reader, never, or twice.
    #[test]
    fn a_popped_element_lives_until_the_list_is_owned_alone() {
        let element = Arc::new(());
        let mut list = Stack::default();
        for _ in 0..20 {
            list.push(element.clone());
        }
        let held = list.get(19).expect("the last");
        assert!(ptr::eq(list.pop().expect("the last"), held));
        assert!(list.get(19).is_none() && list.get(1 << 60).is_none());
        assert_eq!((list.len(), list.popped(), Arc::strong_count(held)), (19, 1, 21));
        list.push(element.clone());
        assert_eq!((list.iter().count(), Arc::strong_count(&element)), (20, 22));
        list.forget_popped();
        assert_eq!((list.len(), list.popped(), Arc::strong_count(&element)), (20, 0, 21));
        list.pop();
        drop(list);
        assert_eq!(Arc::strong_count(&element), 1);
    }
}
