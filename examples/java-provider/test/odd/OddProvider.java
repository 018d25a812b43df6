package odd;

import backplane.instruments.Instrument;
import backplane.instruments.InstrumentMetadata;
import backplane.instruments.InstrumentProvider;
import backplane.instruments.InstrumentResult;
import backplane.instruments.InvocationContext;
import backplane.instruments.PluginContext;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Returns results that cannot be serialized, and throws errors whose message is missing or cannot be read. */
public final class OddProvider implements InstrumentProvider {
  @Override
  public void initialize(PluginContext context) {}

  @Override
  public List<Instrument> instruments() {
    return List.of(new Odd());
  }

  @Override
  public void shutdown() {}

  private static final class Odd implements Instrument {
    @Override
    public String name() {
      return "odd";
    }

    @Override
    public RiskLevel riskLevel() {
      return RiskLevel.ReadOnly;
    }

    @Override
    public InstrumentMetadata metadata() {
      return new InstrumentMetadata("odd", InstrumentMetadata.Category.System, "Is odd.");
    }

    @Override
    public InstrumentResult invoke(Map<String, Object> params, InvocationContext context) {
      String what = String.valueOf(params.get("what"));
      if (what.equals("circle")) {
        List<Object> circle = new ArrayList<>();
        circle.add(circle);
        return InstrumentResult.data(circle);
      }
      if (what.equals("mute")) {
        throw new IllegalStateException() {
          @Override
          public String getMessage() {
            throw new IllegalStateException("no words");
          }
        };
      }
      if (what.equals("deep")) return invoke(params, context);
      return InstrumentResult.data(
          new Object() {
            @Override
            public String toString() {
              throw new IllegalStateException("no text");
            }
          });
    }
  }
}
