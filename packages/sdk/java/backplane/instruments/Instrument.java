package backplane.instruments;

import java.util.List;
import java.util.Map;

/** One tool of a plugin. Values use the JSON types: Map, List, String, Number, Boolean and null. */
public interface Instrument {
  /** The highest risk of any action of the instrument. The operator's policy can assign another risk. */
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

  /** An exception becomes a result with status Error. A Shared instrument is called on several threads. */
  InstrumentResult invoke(Map<String, Object> params, InvocationContext context) throws Exception;

  default InstrumentHealth healthCheck() throws Exception {
    return InstrumentHealth.healthy();
  }
}
