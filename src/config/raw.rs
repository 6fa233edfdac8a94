//! The file's form: which keys there are and how they nest. Every value is a text with its place; `settings.rs` and
//! `parse.rs` give it meaning, so that all messages about values speak with one voice.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;

/// A value as it is written, with its place.
pub(super) type Text = Spanned<String>;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawConfig {
    pub cores: Option<RawCores>,
    pub listen: Option<RawListen>,
    pub exports: Option<Spanned<Vec<Spanned<RawExport>>>>,
    pub identity: Option<RawIdentity>,
    pub limits: Option<RawLimits>,
    pub observe: Option<RawObserve>,
}

/// `cores: 0-3` is short for `cores: { cpus: 0-3 }`.
#[derive(Debug, Default)]
pub(super) struct RawCores {
    pub cpus: Option<Spanned<OneOrMany>>,
    pub spin: Option<Text>,
    pub sleep: Option<Text>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawCoresMap {
    pub cpus: Option<Spanned<OneOrMany>>,
    pub spin: Option<Text>,
    pub sleep: Option<Text>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawListen {
    pub nfs: Option<Spanned<OneOrMany>>,
    pub portmap: Option<Text>,
    pub metrics: Option<Text>,
    pub control: Option<Text>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawExport {
    pub name: Option<Text>,
    pub directory: Option<Text>,
    #[serde(default, deserialize_with = "text_or_null")]
    pub backend: Option<Text>,
    pub fsid: Option<Text>,
    pub clients: Option<Spanned<Vec<Spanned<RawRule>>>>,
    pub fault: Option<RawFault>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawRule {
    pub r#match: Option<Spanned<OneOrMany>>,
    pub access: Option<Text>,
    pub squash: Option<Text>,
    pub anonuid: Option<Text>,
    pub anongid: Option<Text>,
    pub secure: Option<Text>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawFault {
    pub seed: Option<Text>,
    pub errors: Option<Text>,
    pub delays: Option<Text>,
    pub delay: Option<Text>,
    pub short_io: Option<Text>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawIdentity {
    pub state: Option<Text>,
    pub run_as: Option<Text>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawLimits {
    pub slab: Option<Spanned<Vec<Spanned<RawClass>>>>,
    pub huge_pages: Option<Text>,
    pub requests_per_core: Option<Text>,
    pub requests_per_connection: Option<Text>,
    pub connections_per_core: Option<Text>,
    pub connections_per_client: Option<Text>,
    pub max_record: Option<Text>,
    pub rtmax: Option<Text>,
    pub wtmax: Option<Text>,
    pub dtpref: Option<Text>,
    pub record_timeout: Option<Text>,
    pub send_timeout: Option<Text>,
    pub idle_timeout: Option<Text>,
    pub drain_timeout: Option<Text>,
    pub grace: Option<Text>,
    pub drc_entries: Option<Text>,
    pub blocking_threads: Option<Text>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawClass {
    pub size: Option<Text>,
    pub count: Option<Text>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawObserve {
    pub log: Option<Text>,
}

/// A value whose words include `null`, which YAML takes for nothing at all.
fn text_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Text>, D::Error> {
    let value: Spanned<Option<String>> = Spanned::deserialize(deserializer)?;
    let written = !value.defined.span().is_empty();
    Ok(match value.value {
        None if !written => None,
        text => {
            Some(Spanned::new(text.unwrap_or_else(|| "null".to_owned()), value.referenced, value.defined))
        }
    })
}

/// A value, or a list of values: `nfs: 2049` and `nfs: [10.0.0.1, 10.0.0.2]`.
#[derive(Debug)]
pub(super) enum OneOrMany {
    /// A value; its place is that of the whole.
    One(String),
    /// A list.
    Many(Vec<Text>),
}

impl OneOrMany {
    /// All values with their places.
    pub fn texts(whole: &Spanned<OneOrMany>) -> Vec<Text> {
        match &whole.value {
            OneOrMany::One(text) => vec![Spanned::new(text.clone(), whole.referenced, whole.defined)],
            OneOrMany::Many(texts) => texts.clone(),
        }
    }
}

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OneOrMany, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = OneOrMany;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value or a list of values")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<OneOrMany, A::Error> {
                let mut texts = Vec::new();
                while let Some(text) = list.next_element()? {
                    texts.push(text);
                }
                Ok(OneOrMany::Many(texts))
            }

            fn visit_str<E>(self, text: &str) -> Result<OneOrMany, E> {
                Ok(OneOrMany::One(text.to_owned()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<OneOrMany, E> {
                Ok(OneOrMany::One(number.to_string()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<OneOrMany, E> {
                Ok(OneOrMany::One(number.to_string()))
            }

            fn visit_f64<E>(self, number: f64) -> Result<OneOrMany, E> {
                Ok(OneOrMany::One(number.to_string()))
            }

            fn visit_bool<E>(self, value: bool) -> Result<OneOrMany, E> {
                Ok(OneOrMany::One(value.to_string()))
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl<'de> Deserialize<'de> for RawCores {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawCores, D::Error> {
        let whole: Spanned<CoresForm> = Spanned::deserialize(deserializer)?;
        Ok(match whole.value {
            CoresForm::Section(map) => RawCores { cpus: map.cpus, spin: map.spin, sleep: map.sleep },
            CoresForm::Cpus(cpus) => RawCores {
                cpus: Some(Spanned::new(cpus, whole.referenced, whole.defined)),
                ..RawCores::default()
            },
        })
    }
}

/// The two forms of the section `cores`.
#[derive(Debug)]
enum CoresForm {
    Section(Box<RawCoresMap>),
    Cpus(OneOrMany),
}

impl<'de> Deserialize<'de> for CoresForm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CoresForm, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = CoresForm;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`auto`, CPUs, or a section with keys")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<CoresForm, A::Error> {
                RawCoresMap::deserialize(MapAccessDeserializer::new(map))
                    .map(|map| CoresForm::Section(Box::new(map)))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<CoresForm, A::Error> {
                let mut texts = Vec::new();
                while let Some(text) = list.next_element()? {
                    texts.push(text);
                }
                Ok(CoresForm::Cpus(OneOrMany::Many(texts)))
            }

            fn visit_str<E>(self, text: &str) -> Result<CoresForm, E> {
                Ok(CoresForm::Cpus(OneOrMany::One(text.to_owned())))
            }

            fn visit_u64<E>(self, number: u64) -> Result<CoresForm, E> {
                Ok(CoresForm::Cpus(OneOrMany::One(number.to_string())))
            }
        }

        deserializer.deserialize_any(Either)
    }
}
