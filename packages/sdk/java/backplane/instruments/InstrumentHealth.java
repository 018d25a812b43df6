package backplane.instruments;

import java.util.LinkedHashMap;
import java.util.Map;

/** The health of an instrument, as operators see it. */
public final class InstrumentHealth {
  private final String status;
  private final String message;

  private InstrumentHealth(String status, String message) {
    this.status = status;
    this.message = message;
  }

  public static InstrumentHealth healthy() {
    return new InstrumentHealth("Healthy", null);
  }

  public static InstrumentHealth degraded(String message) {
    return new InstrumentHealth("Degraded", message);
  }

  public static InstrumentHealth unhealthy(String message) {
    return new InstrumentHealth("Unhealthy", message);
  }

  Map<String, Object> toJson() {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("status", status);
    if (message != null) fields.put("message", message);
    return fields;
  }
}
