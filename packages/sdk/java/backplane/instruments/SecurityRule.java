package backplane.instruments;

import java.util.LinkedHashMap;
import java.util.Map;

/** A rule can only deny a call or raise its risk; the operator's policy decides the rest. */
public final class SecurityRule {
  private final Map<String, Object> fields = new LinkedHashMap<>();

  private SecurityRule(String effect, String reason) {
    fields.put("effect", effect);
    fields.put("reason", reason);
  }

  public static SecurityRule deny(String reason) {
    return new SecurityRule("deny", reason);
  }

  /** Raises the risk of a matching call to at least this value. */
  public static SecurityRule raise(Instrument.RiskLevel risk, String reason) {
    SecurityRule rule = new SecurityRule("raise", reason);
    rule.fields.put("risk", risk.name());
    return rule;
  }

  /** Limits the rule to calls whose value at a JSON Pointer matches a regular expression. By default all calls match. */
  public SecurityRule where(String pointer, String pattern) {
    fields.put("match", Map.of("pointer", pointer, "pattern", pattern));
    return this;
  }

  Map<String, Object> toJson() {
    return fields;
  }
}
