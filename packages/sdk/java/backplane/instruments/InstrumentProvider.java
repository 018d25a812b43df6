package backplane.instruments;

import java.util.List;

/** A public class with a no-argument constructor; `providerClass` in META-INF/hefty-plugin.json names it. */
public interface InstrumentProvider {
  void initialize(PluginContext context) throws Exception;

  /** Called after initialize. */
  List<Instrument> instruments() throws Exception;

  default void shutdown() throws Exception {}
}
