package backplane.instruments;

import java.util.List;
import java.util.Map;

/** One tool of a plugin. Values are what JSON has: Map, List, String, Number, Boolean and null. */
public interface Instrument {
  /** The highest risk of anything that it does; the host can only raise it. */
  enum RiskLevel {
    ReadOnly,
    LocalWrite,
    SystemExecute,
    NetworkWrite,
    Critical
  }

  /** snake_case, unique among all plugins. */
  String name();

  RiskLevel riskLevel();

  InstrumentMetadata metadata();

  default List<SecurityRule> securityRules() {
    return List.of();
  }

  /** What it throws is a result with status Error. Calls of a Shared instrument come on several threads at once. */
  InstrumentResult invoke(Map<String, Object> params, InvocationContext context) throws Exception;

  default InstrumentHealth healthCheck() throws Exception {
    return InstrumentHealth.healthy();
  }
}
