package backplane.instruments;

import java.util.List;

/** What `providerClass` of META-INF/hefty-plugin.json names: a public class with a constructor without arguments. */
public interface InstrumentProvider {
  void initialize(PluginContext context) throws Exception;

  /** Asked after initialize. */
  List<Instrument> instruments() throws Exception;

  default void shutdown() throws Exception {}
}
