package backplane.instruments;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The metadata of an instrument, including its name. All but the first three fields are optional. */
public final class InstrumentMetadata {
  public enum Category {
    Shell,
    Filesystem,
    Process,
    Network,
    Application,
    Browser,
    InputCapture,
    Clipboard,
    System
  }

  /** Exclusive allows one call at a time. */
  public enum AccessMode {
    Shared,
    Exclusive
  }

  public enum Platform {
    Linux,
    MacOS,
    Windows,
    All
  }

  private final Map<String, Object> fields = new LinkedHashMap<>();

  public InstrumentMetadata(String name, Category category, String description) {
    fields.put("name", name);
    fields.put("category", category.name());
    fields.put("description", description);
  }

  public InstrumentMetadata accessMode(AccessMode mode) {
    return with("accessMode", mode.name());
  }

  public InstrumentMetadata platform(Platform platform) {
    return with("platform", platform.name());
  }

  /** A JSON Schema. */
  public InstrumentMetadata inputSchema(Map<String, Object> schema) {
    return with("inputSchema", schema);
  }

  /** A JSON Schema of a result's data. */
  public InstrumentMetadata outputSchema(Map<String, Object> schema) {
    return with("outputSchema", schema);
  }

  public InstrumentMetadata sideEffects(String... effects) {
    return with("sideEffects", List.of(effects));
  }

  public InstrumentMetadata keywords(String... words) {
    return with("keywords", List.of(words));
  }

  public InstrumentMetadata defaultTimeoutMs(long ms) {
    return with("defaultTimeoutMs", ms);
  }

  public InstrumentMetadata maxTimeoutMs(long ms) {
    return with("maxTimeoutMs", ms);
  }

  private InstrumentMetadata with(String field, Object value) {
    fields.put(field, value);
    return this;
  }

  Map<String, Object> toJson() {
    return fields;
  }
}
