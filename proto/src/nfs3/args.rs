//! The arguments of any procedure (RFC 1813 s3.3).

use super::{
    Procedure, access, commit, create, fsinfo, fsstat, getattr, link, lookup, mkdir, mknod, pathconf, read,
    readdir, readdirplus, readlink, remove, rename, setattr, symlink, write,
};
use crate::xdr::{Decode, Reader, Result};

macro_rules! call_args {
    ($($(#[$meta:meta])* $proc:ident($args:ty),)*) => {
        /// The arguments of a call, by procedure.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the variants are the procedures")]
        pub enum CallArgs<'a> {
            Null,
            $($proc($args),)*
        }

        impl<'a> CallArgs<'a> {
            /// Decodes the arguments of `procedure`, which must fill the record ([`Reader::finish`]).
            pub fn decode(procedure: Procedure, r: &mut Reader<'a>) -> Result<Self> {
                let args = match procedure {
                    Procedure::Null => CallArgs::Null,
                    $(Procedure::$proc => CallArgs::$proc(<$args>::decode(r)?),)*
                };
                r.finish()?;
                Ok(args)
            }

            /// The procedure that they belong to.
            pub fn procedure(&self) -> Procedure {
                match self {
                    CallArgs::Null => Procedure::Null,
                    $(CallArgs::$proc(_) => Procedure::$proc,)*
                }
            }
        }
    };
}

call_args! {
    Getattr(getattr::Args<'a>),
    Setattr(setattr::Args<'a>),
    Lookup(lookup::Args<'a>),
    Access(access::Args<'a>),
    Readlink(readlink::Args<'a>),
    Read(read::Args<'a>),
    Write(write::Args<'a>),
    Create(create::Args<'a>),
    Mkdir(mkdir::Args<'a>),
    Symlink(symlink::Args<'a>),
    Mknod(mknod::Args<'a>),
    Remove(remove::Args<'a>),
    Rmdir(remove::Args<'a>),
    Rename(rename::Args<'a>),
    Link(link::Args<'a>),
    Readdir(readdir::Args<'a>),
    Readdirplus(readdirplus::Args<'a>),
    Fsstat(fsstat::Args<'a>),
    Fsinfo(fsinfo::Args<'a>),
    Pathconf(pathconf::Args<'a>),
    Commit(commit::Args<'a>),
}
