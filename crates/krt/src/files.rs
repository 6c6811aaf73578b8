//! Files as sources: one file as one object, or the files of a folder as many, in YAML or JSON.
//!
//! ```
//! use krt::{KeyRef, Keyed, Krt};
//! use serde::Deserialize;
//!
//! #[derive(Debug, PartialEq, Deserialize)]
//! #[serde(rename_all = "camelCase")]
//! struct MeshConfig {
//!     trust_domain: String,
//! }
//!
//! impl Keyed for MeshConfig {
//!     fn key(&self) -> KeyRef<'_> {
//!         KeyRef::Plain("mesh")
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("mesh.yaml");
//! # std::fs::write(&path, "trustDomain: cluster.local")?;
//! let krt = Krt::builder("mesh").build();
//! let config = krt.file::<MeshConfig>("mesh config", path);
//! krt.start()?;
//! config.synced().await;
//! assert_eq!(config.get().map(|config| config.trust_domain.clone()).as_deref(), Some("cluster.local"));
//! # krt.shutdown().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! - Nothing is read before the engine is started. Then a thread of the source's own reads, waits for the system to tell of changes, and
//!   reads again. It ends with the source.
//! - The source is synced when the files were read once, whether they were good or not.
//! - A file that cannot be read or understood keeps what it gave the last time; [`errors`](FileCollection::errors) says why, and the log.
//!   A file that is gone or empty gives nothing.
//! - What changes in one go is one epoch: changes are collected until it has been quiet for a tenth of a second, for at most one second.
//!   A file that somebody is writing may be seen half written all the same: replace files by renaming.
//! - A folder whose content is swapped by the symbolic link `..data`, as the kubelet does with config maps and secrets, is read
//!   from one side of the swap alone.
//! - An object that equals the one before is no change.
//!
//! # Which files
//!
//! Of a folder, those whose names end in `.yaml`, `.yml` or `.json` and do not begin with a dot; not those of folders in it. A YAML file
//! may have several documents, each of which is an object. A single file has one document; it is JSON if its name ends in `.json`.
//! No file may have more than 16 MiB, or be a pipe or a device. If two objects have one key, that of the file with the smaller name
//! counts, which is an error of the other.

mod load;
mod source;
mod watch;

pub use load::FileError;
#[cfg(test)]
pub(crate) use source::Status;
pub use source::{FileCollection, FileSingleton};
