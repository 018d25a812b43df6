package backplane.instruments;

import java.util.LinkedHashMap;
import java.util.Map;

/** The result of an instrument. `stdio` is the usual form; any other value is sent as `data`. */
public final class InstrumentResult {
  private final Map<String, Object> fields = new LinkedHashMap<>();

  private InstrumentResult(String status, Object data) {
    fields.put("status", status);
    fields.put("data", data);
  }

  public static InstrumentResult stdio(String stdout, String stderr) {
    return new InstrumentResult("Success", streams(stdout, stderr));
  }

  public static InstrumentResult data(Object data) {
    return new InstrumentResult("Success", data);
  }

  public static InstrumentResult error(String code, String message) {
    return error(code, message, null);
  }

  public static InstrumentResult error(String code, String message, Object details) {
    return new InstrumentResult("Error", streams("", message)).failure(code, message, details);
  }

  static InstrumentResult withStatus(String status, Object data) {
    return new InstrumentResult(status, data);
  }

  InstrumentResult failure(String code, String message, Object details) {
    Map<String, Object> error = new LinkedHashMap<>();
    error.put("code", code);
    error.put("message", message);
    if (details != null) error.put("details", details);
    fields.put("error", error);
    return this;
  }

  Map<String, Object> toJson() {
    return fields;
  }

  private static Map<String, Object> streams(String stdout, String stderr) {
    return Map.of("stdout", stdout, "stderr", stderr);
  }
}
