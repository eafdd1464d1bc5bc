//! Spans in the form of OpenTelemetry.

use super::SpanSettings;
use super::client::Client;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind as Kind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_http::Request;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use rubato_base::trace::{Span, SpanKind, SpanValue};
use std::time::{Duration, SystemTime};

/// From 1970 to 2000: spans count from there.
const EPOCH_2000: Duration = Duration::from_secs(946_684_800);
/// Where collectors take traces.
const PATH: &str = "/v1/traces";

/// Sends batches of spans to one collector.
pub(super) struct Exporter {
    exporter: SpanExporter,
    scope: InstrumentationScope,
}

impl Exporter {
    /// Errors: with a sentence about an endpoint that there cannot be.
    pub(super) fn new(settings: &SpanSettings) -> Result<Exporter, String> {
        let endpoint = endpoint_of(&settings.endpoint)?;
        let mut exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Client)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(endpoint)
            .build()
            .map_err(|wrong| format!("{}: {wrong}", settings.endpoint))?;
        let instance = KeyValue::new("service.instance.id", settings.instance.clone());
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = Resource::builder_empty()
            .with_service_name("rubato")
            .with_attributes([instance, version]);
        exporter.set_resource(&resource.build());
        Ok(Exporter {
            exporter,
            scope: InstrumentationScope::builder("rubato").build(),
        })
    }

    /// Errors: with why the collector has not taken them.
    pub(super) fn export(&self, spans: Vec<Span>) -> Result<(), String> {
        let spans = spans.into_iter().map(|span| self.data(span)).collect();
        futures_executor::block_on(self.exporter.export(spans)).map_err(|wrong| wrong.to_string())
    }

    fn data(&self, span: Span) -> SpanData {
        let trace = TraceId::from_bytes(span.context.trace.0.to_be_bytes());
        let id = SpanId::from_bytes(span.id.0.to_be_bytes());
        let attributes = span.attributes.into_iter().map(|(key, value)| match value {
            SpanValue::Number(number) => KeyValue::new(key, number),
            SpanValue::Text(text) => KeyValue::new(key, text),
        });
        SpanData {
            span_context: SpanContext::new(trace, id, TraceFlags::SAMPLED, false, TraceState::NONE),
            parent_span_id: SpanId::from_bytes(span.context.parent.0.to_be_bytes()),
            parent_span_is_remote: span.kind == SpanKind::Server,
            span_kind: match span.kind {
                SpanKind::Server => Kind::Server,
                SpanKind::Internal => Kind::Internal,
                SpanKind::Client => Kind::Client,
            },
            name: span.name,
            start_time: time_of(span.began_us),
            end_time: time_of(span.ended_us.max(span.began_us)),
            attributes: attributes.collect(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: match span.failed {
                Some(why) => Status::error(why),
                None => Status::Unset,
            },
            instrumentation_scope: self.scope.clone(),
        }
    }
}

/// The endpoint with its path. Refuses what the client cannot reach.
fn endpoint_of(endpoint: &str) -> Result<String, String> {
    let wrong = || {
        format!(
            "{endpoint}: an endpoint is http://HOST:PORT; for others have a collector on this machine pass spans on"
        )
    };
    let request = Request::post(endpoint).body(()).map_err(|_| wrong())?;
    let uri = request.uri();
    if uri.scheme_str() != Some("http") || uri.host().is_none() {
        return Err(wrong());
    }
    Ok(match uri.path() {
        "" | "/" => endpoint.trim_end_matches('/').to_owned() + PATH,
        _ => endpoint.to_owned(),
    })
}

fn time_of(us: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + EPOCH_2000 + Duration::from_micros(us.max(0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_has_the_path_of_traces_unless_it_has_one() {
        assert_eq!(endpoint_of("http://a:4318").unwrap(), "http://a:4318/v1/traces");
        assert_eq!(endpoint_of("http://a:4318/").unwrap(), "http://a:4318/v1/traces");
        assert_eq!(endpoint_of("http://a/x/traces").unwrap(), "http://a/x/traces");
        for wrong in ["", "a:4318", "https://a:4318", "http://", "/v1/traces"] {
            assert!(endpoint_of(wrong).is_err(), "{wrong}");
        }
    }
}
