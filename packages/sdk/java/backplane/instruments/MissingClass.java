package backplane.instruments;

import java.util.List;

/** Explains an error about a class that is neither in the plugin nor in this host. */
final class MissingClass {
  private record Library(String prefix, String someClass, String name) {}

  /** Hefty's API and the libraries of its types. */
  private static final List<Library> LIBRARIES =
      List.of(
          new Library("hefty.", "hefty.core.instrument.Instrument", "hefty-core"),
          new Library("scala.", "scala.Option", "the Scala library"),
          new Library("io.circe.", "io.circe.Json", "circe-core"),
          new Library("org.slf4j.", "org.slf4j.Logger", "slf4j-api"));

  private MissingClass() {}

  /** Null if the error has another cause. */
  static String explain(Throwable error) {
    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
      boolean missing = cause instanceof NoClassDefFoundError || cause instanceof ClassNotFoundException;
      // The message is a sentence, not a class name, if the class exists but failed to initialize.
      if (missing && cause.getMessage() != null && !cause.getMessage().contains(" ")) {
        String name = cause.getMessage().replace('/', '.');
        return "the class " + name + " is neither in the plugin nor in this host; " + remedyFor(name);
      }
    }
    return null;
  }

  private static String remedyFor(String name) {
    boolean known = LIBRARIES.stream().anyMatch(each -> name.startsWith(each.prefix));
    List<String> absent =
        LIBRARIES.stream().filter(each -> !isPresent(each.someClass)).map(Library::name).toList();
    if (!known || absent.isEmpty()) return "add the jar that contains it to lib/ in the archive";
    return "a plugin for Hefty's own API must include it: add the jars of "
        + String.join(", ", absent)
        + " to lib/ in the archive, or implement backplane.instruments.InstrumentProvider, which needs none of them";
  }

  private static boolean isPresent(String name) {
    try {
      Class.forName(name, false, MissingClass.class.getClassLoader());
      return true;
    } catch (ClassNotFoundException | LinkageError e) {
      return false;
    }
  }
}
