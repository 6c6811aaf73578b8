//! Long texts of the API server that several cases expect.

/// A name that is no RFC 1123 subdomain.
pub(crate) const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
    or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
/// A name that is no RFC 1123 label.
pub(crate) const LABEL_1123: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
    and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
/// A name that is no RFC 1035 label.
pub(crate) const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with \
    an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
/// The part of a qualified name behind the slash.
pub(crate) const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and \
    end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
/// A label key or value with more than one slash.
pub(crate) const QUALIFIED: &str = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must \
    start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation \
    is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. \
    'example.com/MyName')";
/// A label value.
pub(crate) const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', \
    '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', \
    regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
/// An update from an old version.
pub(crate) const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";
/// A media type of a body that is none of these.
pub(crate) const UNKNOWN_FORMAT: &str = "the body of the request was in an unknown format - accepted media types include: \
    application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// A method that a resource does not have.
pub(crate) const NOT_ALLOWED: &str = "the server does not allow this method on the requested resource";
/// A path that a served group version does not have.
pub(crate) const NO_RESOURCE: &str = "the server could not find the requested resource";
