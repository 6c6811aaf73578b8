//! The list and watch requests of one reflector.

use std::time::Duration;

use form_urlencoded::Serializer;
use http::{Request, header};
use kube::client::Body;

use crate::informer::options::InformerKey;
use crate::object::Representation;

/// Where one reflector lists and watches.
#[derive(Debug)]
pub(crate) struct Target {
    path: String,
    labels: String,
    fields: String,
    representation: Representation,
    packed: Packed,
}

/// Which answers are asked for packed with gzip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packed {
    /// All that a server packs: lists and streaming lists, if they are large.
    All,
    /// Lists. For connections that were made elsewhere: they may unpack by themselves, and what unpacks the one member of a
    /// list may take the first of the many members of a streaming list for the whole.
    Lists,
    /// None.
    Nothing,
}

/// Which state a list asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListAt<'a> {
    /// Any that the server has at hand.
    Any,
    /// One that is not older than this resource version.
    NotOlderThan(&'a str),
    /// The newest, in pages of so many objects; 0 for no pages.
    Newest { limit: u32 },
    /// The next page of a list.
    Continue { token: &'a str, limit: u32 },
}

impl Target {
    /// `namespace` is the one of the informer's that is meant; `None` for all.
    pub(crate) fn new(key: &InformerKey, namespace: Option<&str>, packed: Packed) -> Self {
        let resource = &key.resource;
        let root = if resource.group.is_empty() { "/api" } else { "/apis" };
        let namespace = namespace.map_or_else(String::new, |name| format!("/namespaces/{name}"));
        Self {
            path: format!("{root}/{}{namespace}/{}", resource.api_version, resource.plural),
            labels: key.labels.clone(),
            fields: key.fields.clone(),
            representation: key.representation,
            packed,
        }
    }

    pub(crate) fn list(&self, at: ListAt<'_>) -> Result<Request<Body>, http::Error> {
        let mut query = self.query();
        let limit = match at {
            ListAt::Any => {
                query.append_pair("resourceVersion", "0");
                0
            }
            ListAt::NotOlderThan(version) => {
                query.append_pair("resourceVersion", version);
                query.append_pair("resourceVersionMatch", "NotOlderThan");
                0
            }
            ListAt::Newest { limit } => limit,
            ListAt::Continue { token, limit } => {
                query.append_pair("continue", token);
                limit
            }
        };
        if limit > 0 {
            query.append_pair("limit", &limit.to_string());
        }
        self.request(query, "PartialObjectMetadataList", self.packed != Packed::Nothing)
    }

    /// A watch from `version`; with `initial_events`, one that sends the whole state first.
    pub(crate) fn watch(
        &self,
        version: &str,
        timeout: Duration,
        initial_events: bool,
    ) -> Result<Request<Body>, http::Error> {
        let mut query = self.query();
        query.append_pair("watch", "true");
        query.append_pair("allowWatchBookmarks", "true");
        query.append_pair("timeoutSeconds", &timeout.as_secs().to_string());
        if initial_events {
            query.append_pair("sendInitialEvents", "true");
            query.append_pair("resourceVersionMatch", "NotOlderThan");
        }
        if !version.is_empty() {
            query.append_pair("resourceVersion", version);
        }
        // A plain watch is never packed, so that each event comes the moment it happens.
        self.request(
            query,
            "PartialObjectMetadata",
            initial_events && self.packed == Packed::All,
        )
    }

    fn query(&self) -> Serializer<'static, String> {
        let mut query = Serializer::new(String::new());
        if !self.labels.is_empty() {
            query.append_pair("labelSelector", &self.labels);
        }
        if !self.fields.is_empty() {
            query.append_pair("fieldSelector", &self.fields);
        }
        query
    }

    fn request(
        &self,
        mut query: Serializer<'static, String>,
        metadata_as: &str,
        packed: bool,
    ) -> Result<Request<Body>, http::Error> {
        let accept = match self.representation {
            Representation::Typed | Representation::Dynamic => "application/json".to_owned(),
            Representation::Metadata => format!("application/json;as={metadata_as};g=meta.k8s.io;v=v1"),
        };
        let query = query.finish();
        let uri = if query.is_empty() {
            self.path.clone()
        } else {
            format!("{}?{query}", self.path)
        };
        // Said in any case: a layer below might ask by itself otherwise.
        let encoding = if packed { "gzip" } else { "identity" };
        Request::get(uri)
            .header(header::ACCEPT, accept)
            .header(header::ACCEPT_ENCODING, encoding)
            .body(Body::empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::informer::options::InformerOptions;
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::Pod;
    use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};

    fn uri(request: Result<Request<Body>, http::Error>) -> String {
        request.unwrap().uri().to_string()
    }

    #[test]
    fn requests_name_path_selectors_and_versions() {
        let options = InformerOptions::<Pod>::default().fields("status.phase=Running");
        let pods = Target::new(&InformerKey::of::<Pod>(&(), &options), Some("prod"), Packed::All);
        assert_eq!(
            uri(pods.list(ListAt::Any)),
            "/api/v1/namespaces/prod/pods?fieldSelector=status.phase%3DRunning&resourceVersion=0"
        );
        let key = InformerKey::of::<Deployment>(&(), &InformerOptions::default());
        let deployments = Target::new(&key, None, Packed::All);
        assert_eq!(
            uri(deployments.list(ListAt::Newest { limit: 0 })),
            "/apis/apps/v1/deployments"
        );
        assert_eq!(
            uri(deployments.list(ListAt::NotOlderThan("7"))),
            "/apis/apps/v1/deployments?resourceVersion=7&resourceVersionMatch=NotOlderThan"
        );
        assert_eq!(
            uri(deployments.list(ListAt::Continue {
                token: "a/b+",
                limit: 5
            })),
            "/apis/apps/v1/deployments?continue=a%2Fb%2B&limit=5"
        );
        assert_eq!(
            uri(deployments.watch("7", Duration::from_mins(5), false)),
            "/apis/apps/v1/deployments?watch=true&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion=7"
        );
        assert_eq!(
            uri(deployments.watch("", Duration::from_mins(5), true)),
            "/apis/apps/v1/deployments?watch=true&allowWatchBookmarks=true&timeoutSeconds=300\
             &sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        );
    }

    #[test]
    fn gzip_is_asked_for_where_it_can_be_unpacked() {
        let key = InformerKey::of::<Pod>(&(), &InformerOptions::default());
        let asked = |packed: Packed| {
            let target = Target::new(&key, None, packed);
            let requests = [
                target.list(ListAt::Any),
                target.watch("", Duration::from_secs(1), true),
                target.watch("7", Duration::from_secs(1), false),
            ];
            requests.map(|request| request.unwrap().headers()[header::ACCEPT_ENCODING].clone())
        };
        assert_eq!(asked(Packed::All), ["gzip", "gzip", "identity"]);
        assert_eq!(asked(Packed::Lists), ["gzip", "identity", "identity"]);
        assert_eq!(asked(Packed::Nothing), ["identity"; 3]);
    }

    #[test]
    fn metadata_is_asked_for_in_the_form_of_each_verb() {
        let resource = ApiResource::erase::<Pod>(&());
        let key = InformerKey::of::<PartialObjectMeta<DynamicObject>>(&resource, &InformerOptions::default());
        let target = Target::new(&key, None, Packed::All);
        let accept = |request: Result<Request<Body>, http::Error>| request.unwrap().headers()[header::ACCEPT].clone();
        assert_eq!(
            accept(target.list(ListAt::Any)),
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        );
        let watch = target.watch("", Duration::from_secs(1), false);
        assert_eq!(
            accept(watch),
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
        );
    }
}
