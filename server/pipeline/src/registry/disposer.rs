//! What takes a contribution back: exactly that one, at most once.

/// Takes one contribution back when it is dropped or disposed; a second time does nothing.
#[must_use = "dropping the disposer takes the contribution back; keep() leaves it to its layer"]
pub struct Disposer(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Disposer {
    pub(super) fn new(dispose: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(dispose)))
    }

    /// Takes the contribution back now.
    pub fn dispose(&mut self) {
        if let Some(dispose) = self.0.take() {
            dispose();
        }
    }

    /// Leaves the contribution in place for as long as its layer lives.
    pub fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Disposer {
    fn drop(&mut self) {
        self.dispose();
    }
}
