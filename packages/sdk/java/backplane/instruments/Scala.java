package backplane.instruments;

import java.lang.invoke.MethodType;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;

/**
 * Reads and builds the Scala and Circe values of Hefty's API by reflection. The libraries are the plugin's: this host
 * is compiled without them, and without Hefty's own classes.
 */
final class Scala {
  private Scala() {}

  /** Calls a public method that takes these arguments, and throws what the method throws. */
  static Object call(Object target, String name, Object... args) throws Exception {
    for (Class<?> type : typesOf(target.getClass())) {
      if (!Modifier.isPublic(type.getModifiers())) continue;
      for (Method method : type.getMethods()) {
        if (method.getName().equals(name) && accepts(method, args)) return invoke(method, target, args);
      }
    }
    throw new NoSuchMethodException(target.getClass().getName() + " has no method " + name + " that this host can call");
  }

  static Object invoke(Method method, Object target, Object... args) throws Exception {
    try {
      return method.invoke(target, args);
    } catch (InvocationTargetException e) {
      if (e.getCause() instanceof Exception thrown) throw thrown;
      if (e.getCause() instanceof Error thrown) throw thrown;
      throw e;
    }
  }

  /** The singleton of a Scala object. */
  static Object module(String name) throws Exception {
    return Class.forName(name + "$").getField("MODULE$").get(null);
  }

  /** The classes and interfaces of a class, itself first. */
  static Set<Class<?>> typesOf(Class<?> type) {
    Set<Class<?>> types = new LinkedHashSet<>();
    collect(type, types);
    return types;
  }

  private static void collect(Class<?> type, Set<Class<?>> types) {
    if (type == null || !types.add(type)) return;
    collect(type.getSuperclass(), types);
    for (Class<?> each : type.getInterfaces()) collect(each, types);
  }

  static List<Object> toJavaList(Object iterable) throws Exception {
    List<Object> list = new ArrayList<>();
    Object iterator = call(iterable, "iterator");
    while ((boolean) call(iterator, "hasNext")) list.add(call(iterator, "next"));
    return list;
  }

  static Object toScalaList(List<?> values) throws Exception {
    Object list = module("scala.collection.immutable.Nil");
    var cons = Class.forName("scala.collection.immutable.$colon$colon").getConstructors()[0];
    for (int at = values.size() - 1; at >= 0; at--) list = cons.newInstance(values.get(at), list);
    return list;
  }

  static Object toScalaMap(Map<String, String> values) throws Exception {
    Object map = call(module("scala.collection.immutable.Map"), "empty");
    for (var entry : values.entrySet()) map = call(map, "updated", entry.getKey(), entry.getValue());
    return map;
  }

  static Object option(Object value) throws Exception {
    return call(module("scala.Option"), "apply", value);
  }

  /** The value of an Option, null for None, and any other value unchanged. */
  static Object unwrap(Object value) throws Exception {
    if (value == null || !isA(value, "scala.Option")) return value;
    return (boolean) call(value, "isDefined") ? call(value, "get") : null;
  }

  static Object failedFuture(Throwable error) throws Exception {
    return call(module("scala.concurrent.Future"), "failed", error);
  }

  static Object executionContext(Executor executor) throws Exception {
    return call(module("scala.concurrent.ExecutionContext"), "fromExecutor", executor);
  }

  /** Waits for a Future and throws its failure. */
  static Object await(Object future) throws Exception {
    Object stage = call(module("scala.jdk.javaapi.FutureConverters"), "asJava", future);
    try {
      return ((CompletionStage<?>) stage).toCompletableFuture().get();
    } catch (ExecutionException e) {
      if (e.getCause() instanceof Exception thrown) throw thrown;
      throw e;
    }
  }

  static Object toCirce(Object value) throws Exception {
    Object circe = module("io.circe.Json");
    if (value == null) return call(circe, "Null");
    if (value instanceof Boolean) return call(circe, "fromBoolean", value);
    if (value instanceof Long) return call(circe, "fromLong", value);
    if (value instanceof Number number) return call(circe, "fromDoubleOrNull", number.doubleValue());
    List<Object> items = new ArrayList<>();
    if (value instanceof Map<?, ?> map) {
      var tuple = Class.forName("scala.Tuple2").getConstructor(Object.class, Object.class);
      for (var entry : map.entrySet()) items.add(tuple.newInstance(entry.getKey(), toCirce(entry.getValue())));
      return call(circe, "fromFields", toScalaList(items));
    }
    if (value instanceof List<?> list) {
      for (Object each : list) items.add(toCirce(each));
      return call(circe, "fromValues", toScalaList(items));
    }
    return call(circe, "fromString", String.valueOf(value));
  }

  /** Converts Circe's values and Options to JSON types, and anything else that JSON cannot represent to text. */
  static Object toJson(Object scala) throws Exception {
    Object value = unwrap(scala);
    if (value == null || value instanceof String || value instanceof Number || value instanceof Boolean) return value;
    if (isA(value, "io.circe.Json")) return Json.parse((String) call(value, "noSpaces"));
    return String.valueOf(value);
  }

  /** The name of an enum case or case object, without the fields of a case class. */
  static String caseName(Object value) {
    String text = String.valueOf(value);
    int fields = text.indexOf('(');
    return fields < 0 ? text : text.substring(0, fields);
  }

  /** The first field of a case class as text; null for a value without fields. */
  static String firstField(Object value) throws Exception {
    if (!isA(value, "scala.Product") || (int) call(value, "productArity") == 0) return null;
    return String.valueOf(toJson(call(value, "productElement", 0)));
  }

  private static boolean isA(Object value, String type) {
    return typesOf(value.getClass()).stream().anyMatch(each -> each.getName().equals(type));
  }

  private static boolean accepts(Method method, Object[] args) {
    Class<?>[] types = method.getParameterTypes();
    if (types.length != args.length) return false;
    for (int at = 0; at < types.length; at++) {
      // Wraps a primitive type, as reflection does with its value.
      Class<?> type = MethodType.methodType(types[at]).wrap().returnType();
      if (args[at] == null ? types[at].isPrimitive() : !type.isInstance(args[at])) return false;
    }
    return true;
  }
}
