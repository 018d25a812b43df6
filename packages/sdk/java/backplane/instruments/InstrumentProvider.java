package backplane.instruments;

import java.util.List;

/**
 * The entry point of a plugin, implemented by a public class with a no-argument constructor. `providerClass` in
 * META-INF/hefty-plugin.json names the class.
 */
public interface InstrumentProvider {
  void initialize(PluginContext context) throws Exception;

  /** Called after initialize. */
  List<Instrument> instruments() throws Exception;

  default void shutdown() throws Exception {}
}
