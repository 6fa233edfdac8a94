//! Structures and enums are declared once; their decoder and encoder follow from the declaration.

/// A structure whose fields are encoded one after another (RFC 4506 s4.14).
macro_rules! xdr_struct {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$fmeta:meta])* pub $field:ident: $ty:ty,)* }) => {
        $(#[$meta])*
        pub struct $name { $($(#[$fmeta])* pub $field: $ty,)* }
        impl<'de> $crate::xdr::Decode<'de> for $name {
            fn decode(r: &mut $crate::xdr::Reader<'de>) -> $crate::xdr::Result<Self> {
                Ok($name { $($field: $crate::xdr::Decode::decode(r)?,)* })
            }
        }
        impl $crate::xdr::Encode for $name {
            fn encode(&self, w: &mut $crate::xdr::Writer<'_>) -> ::core::result::Result<(), $crate::xdr::Full> {
                $($crate::xdr::Encode::encode(&self.$field, w)?;)*
                Ok(())
            }
            fn encoded_len(&self) -> usize {
                0 $(+ $crate::xdr::Encode::encoded_len(&self.$field))*
            }
        }
    };
    ($(#[$meta:meta])* pub struct $name:ident<'a> { $($(#[$fmeta:meta])* pub $field:ident: $ty:ty,)* }) => {
        $(#[$meta])*
        pub struct $name<'a> { $($(#[$fmeta])* pub $field: $ty,)* }
        impl<'a> $crate::xdr::Decode<'a> for $name<'a> {
            fn decode(r: &mut $crate::xdr::Reader<'a>) -> $crate::xdr::Result<Self> {
                Ok($name { $($field: $crate::xdr::Decode::decode(r)?,)* })
            }
        }
        impl $crate::xdr::Encode for $name<'_> {
            fn encode(&self, w: &mut $crate::xdr::Writer<'_>) -> ::core::result::Result<(), $crate::xdr::Full> {
                $($crate::xdr::Encode::encode(&self.$field, w)?;)*
                Ok(())
            }
            fn encoded_len(&self) -> usize {
                0 $(+ $crate::xdr::Encode::encoded_len(&self.$field))*
            }
        }
    };
}

/// An enum that admits the listed values only (RFC 4506 s4.3).
macro_rules! xdr_enum {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$vmeta:meta])* $variant:ident = $value:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum $name { $($(#[$vmeta])* $variant = $value,)* }
        impl $name {
            /// All values, in the order of the specification.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];
            /// The value with this number on the wire.
            pub const fn from_u32(value: u32) -> Option<Self> {
                match value {
                    $($value => Some($name::$variant),)*
                    _ => None,
                }
            }
        }
        impl<'de> $crate::xdr::Decode<'de> for $name {
            fn decode(r: &mut $crate::xdr::Reader<'de>) -> $crate::xdr::Result<Self> {
                $name::from_u32(r.u32()?).ok_or($crate::xdr::Error::BadDiscriminant)
            }
        }
        impl $crate::xdr::Encode for $name {
            fn encode(&self, w: &mut $crate::xdr::Writer<'_>) -> ::core::result::Result<(), $crate::xdr::Full> {
                w.u32(*self as u32)
            }
            fn encoded_len(&self) -> usize {
                4
            }
        }
    };
}

pub(crate) use {xdr_enum, xdr_struct};
