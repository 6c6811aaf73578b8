//! Collections that a transformation makes: kept from run to run, and dropped when they are asked for no more.

use std::any::Any;
use std::fmt;
use std::ops::Deref;

use crate::fetch::Context;
use crate::krt::Krt;

/// Makes collections inside of a transformation. Lent by [`Context::scoped`]; it has all constructors of the [`Krt`] that it derefs to.
///
/// It does not keep the engine, and neither do its clones.
pub struct Scope {
    krt: Krt,
}

impl Deref for Scope {
    type Target = Krt;

    fn deref(&self) -> &Krt {
        &self.krt
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.krt.fmt(f)
    }
}

/// What an input's runs made under one key.
pub(crate) struct Child {
    key: Box<str>,
    value: Box<dyn Any + Send + Sync>,
    /// The present run made it.
    pub(crate) is_new: bool,
    /// The present run, or the last one, asked for it.
    pub(crate) is_asked: bool,
    /// The run that the input's outputs are of asked for it.
    pub(crate) is_kept: bool,
}

impl Child {
    fn find<'c, R: 'static>(children: &'c mut [Self], key: &str) -> Option<(&'c R, &'c mut bool)> {
        let mut own = children.iter_mut().filter(|child| *child.key == *key);
        own.find_map(|child| Some((child.value.downcast_ref()?, &mut child.is_asked)))
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Context<'_> {
    /// What the function made when this input asked for it under this key for the first time: a collection, as a rule, that the
    /// transformation returns as part of its output, for [`Krt::nested_join`].
    ///
    /// ```
    /// use krt::testing::Stepper;
    /// use krt::{Collection, KeyRef, Keyed, Krt, Lend, Text};
    ///
    /// #[derive(PartialEq)]
    /// struct Tenant {
    ///     name: String,
    ///     names: Collection<Text>,
    /// }
    /// # impl Keyed for Tenant {
    /// #     fn key(&self) -> KeyRef<'_> { KeyRef::Plain(&self.name) }
    /// # }
    /// # impl Lend<Text> for Tenant {
    /// #     fn lend(&self) -> &Collection<Text> { &self.names }
    /// # }
    ///
    /// let krt = Krt::builder("test").build();
    /// let mut stepper = Stepper::new(&krt)?;
    /// let wanted = krt.static_collection("wanted", [Text::from("shop")]);
    /// let names = krt.static_collection("names", ["shop/web", "bank/api"].map(Text::from));
    /// let tenants = krt.collection("tenants", &wanted, move |cx, tenant| {
    ///     let (names, prefix) = (names.clone(), format!("{}/", tenant.0));
    ///     let names = cx.scoped("names", move |scope| {
    ///         scope.collection("names of a tenant", &names, move |_, name| {
    ///             name.0.starts_with(&prefix).then(|| Text::clone(name))
    ///         })
    ///     });
    ///     Some(Tenant { name: tenant.0.clone(), names })
    /// });
    /// let all = krt.nested_join("all", &tenants);
    /// stepper.settle();
    /// assert!(all.get("shop/web").is_some() && all.get("bank/api").is_none());
    /// # Ok::<_, krt::Error>(())
    /// ```
    ///
    /// # Guarantees
    ///
    /// Each run of the same input (by its key) gets the same value for the same key and type, for as long as each run whose result is used
    /// asks for it. Otherwise, and when the input goes, it is dropped. So is what was made by a run whose result is not used
    /// because it was the first to fetch a collection that was not up to date: what it saw was old. If a run panics, discards its result
    /// or fetches what is not synced, what belongs to the last outputs stays too.
    ///
    /// A collection that is made in one epoch is there in the next. An input that fetches it runs again then.
    pub fn scoped<R: Clone + Send + Sync + 'static>(&mut self, key: &str, make: impl FnOnce(&Scope) -> R) -> R {
        if let Some((value, is_asked)) = Child::find::<R>(&mut self.scratch.children, key) {
            *is_asked = true;
            return value.clone();
        }
        let scope = Scope {
            krt: Krt::lent(self.shared),
        };
        let value = make(&scope);
        self.scratch.children.push(Child {
            key: key.into(),
            value: Box::new(value.clone()),
            is_new: true,
            is_asked: true,
            is_kept: false,
        });
        value
    }
}
