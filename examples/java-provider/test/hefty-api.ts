/**
 * Stand-ins for Hefty's API and for the parts of the Scala and Circe libraries that it uses, in the shape in which the
 * Scala compiler emits them. They have the names and signatures that Hefty's guide publishes; Hefty's own jars are not
 * needed to run the tests. The provider is the guide's Quick Start.
 */
import { cpSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { runJdkTool } from "../../java-instrument/test/build-jar.ts";

const LIBRARIES: Record<string, string> = {
  "scala/Product.java": `package scala;
public interface Product { int productArity(); Object productElement(int n); }`,
  "scala/Tuple2.java": `package scala;
public class Tuple2 { public final Object a, b; public Tuple2(Object a, Object b) { this.a = a; this.b = b; } }`,
  "scala/Option.java": `package scala;
public abstract class Option { public abstract boolean isDefined(); public abstract Object get(); }`,
  "scala/Option$.java": `package scala;
public class Option$ { public static final Option$ MODULE$ = new Option$();
  public Option apply(Object value) { return new Option() {
    public boolean isDefined() { return value != null; }
    public Object get() { return value; } }; } }`,
  "scala/collection/Iterator.java": `package scala.collection;
public interface Iterator { boolean hasNext(); Object next(); }`,
  "scala/collection/immutable/List.java": `package scala.collection.immutable;
public abstract class List { public abstract scala.collection.Iterator iterator(); }`,
  "scala/collection/immutable/Nil$.java": `package scala.collection.immutable;
public class Nil$ extends List { public static final Nil$ MODULE$ = new Nil$();
  public scala.collection.Iterator iterator() { return of(this); }
  static scala.collection.Iterator of(List start) { return new scala.collection.Iterator() {
    List at = start;
    public boolean hasNext() { return at instanceof $colon$colon; }
    public Object next() { $colon$colon now = ($colon$colon) at; at = now.tail; return now.head; } }; } }`,
  "scala/collection/immutable/$colon$colon.java": `package scala.collection.immutable;
public class $colon$colon extends List { final Object head; final List tail;
  public $colon$colon(Object head, List tail) { this.head = head; this.tail = tail; }
  public scala.collection.Iterator iterator() { return Nil$.of(this); } }`,
  "scala/collection/immutable/Map.java": `package scala.collection.immutable;
public interface Map { Map updated(Object key, Object value); scala.Option get(Object key); }`,
  "scala/collection/immutable/Map$.java": `package scala.collection.immutable;
public class Map$ { public static final Map$ MODULE$ = new Map$();
  public Map empty() { return of(java.util.Map.of()); }
  private static Map of(java.util.Map<Object, Object> values) { return new Map() {
    public Map updated(Object key, Object value) { var next = new java.util.HashMap<>(values); next.put(key, value); return of(next); }
    public scala.Option get(Object key) { return scala.Option$.MODULE$.apply(values.get(key)); } }; } }`,
  "scala/concurrent/Future.java": `package scala.concurrent;
public class Future { public final java.util.concurrent.CompletableFuture<Object> done = new java.util.concurrent.CompletableFuture<>(); }`,
  "scala/concurrent/Future$.java": `package scala.concurrent;
public class Future$ { public static final Future$ MODULE$ = new Future$();
  public Future successful(Object value) { Future future = new Future(); future.done.complete(value); return future; }
  public Future failed(Throwable error) { Future future = new Future(); future.done.completeExceptionally(error); return future; } }`,
  "scala/concurrent/ExecutionContext.java": `package scala.concurrent;
public interface ExecutionContext { void execute(Runnable work); }`,
  "scala/concurrent/ExecutionContext$.java": `package scala.concurrent;
public class ExecutionContext$ { public static final ExecutionContext$ MODULE$ = new ExecutionContext$();
  public ExecutionContext fromExecutor(java.util.concurrent.Executor executor) { return executor::execute; } }`,
  "scala/jdk/javaapi/FutureConverters$.java": `package scala.jdk.javaapi;
public class FutureConverters$ { public static final FutureConverters$ MODULE$ = new FutureConverters$();
  public java.util.concurrent.CompletionStage asJava(scala.concurrent.Future future) { return future.done; } }`,
  "io/circe/Json.java": `package io.circe;
public class Json { final String text; Json(String text) { this.text = text; } public String noSpaces() { return text; } }`,
  "io/circe/Json$.java": `package io.circe;
public class Json$ { public static final Json$ MODULE$ = new Json$();
  public Json Null() { return new Json("null"); }
  public Json fromBoolean(boolean value) { return new Json("" + value); }
  public Json fromLong(long value) { return new Json("" + value); }
  public Json fromDoubleOrNull(double value) { return new Json("" + value); }
  public Json fromString(String value) { return new Json('"' + value + '"'); }
  public Json fromValues(scala.collection.immutable.List items) {
    var parts = new java.util.StringJoiner(",", "[", "]");
    for (var each = items.iterator(); each.hasNext();) parts.add(((Json) each.next()).text);
    return new Json(parts.toString()); }
  public Json fromFields(scala.collection.immutable.List items) {
    var parts = new java.util.StringJoiner(",", "{", "}");
    for (var each = items.iterator(); each.hasNext();) {
      var field = (scala.Tuple2) each.next();
      parts.add('"' + (String) field.a + "\\":" + ((Json) field.b).text);
    }
    return new Json(parts.toString()); } }`,
  "org/slf4j/Logger.java": `package org.slf4j;
public interface Logger { void info(String message); void warn(String format, Object argument); }`,
  "hefty/core/instrument/CaseValue.java": `package hefty.core.instrument;
public class CaseValue { final String name; public CaseValue(String name) { this.name = name; } public String toString() { return name; } }`,
  "hefty/core/instrument/Instrument.java": `package hefty.core.instrument;
public interface Instrument { String name(); CaseValue origin(); CaseValue riskLevel(); InstrumentMetadata metadata();
  default scala.collection.immutable.List securityRules() { return scala.collection.immutable.Nil$.MODULE$; }
  scala.concurrent.Future invoke(io.circe.Json params, InvocationContext ctx, scala.concurrent.ExecutionContext ec);
  scala.concurrent.Future healthCheck(scala.concurrent.ExecutionContext ec); }`,
  "hefty/core/instrument/InstrumentMetadata.java": `package hefty.core.instrument;
import scala.collection.immutable.List;
public record InstrumentMetadata(String name, CaseValue category, String description, CaseValue accessMode, CaseValue platform,
  io.circe.Json inputSchema, io.circe.Json outputSchema, List sideEffects, int defaultTimeoutMs, int maxTimeoutMs, List keywords) {}`,
  "hefty/core/instrument/InvocationContext.java": `package hefty.core.instrument;
public record InvocationContext(String activityId, String sessionId, scala.Option traceId, scala.Option timeoutMs, scala.Option dataDirPath) {}`,
  "hefty/core/instrument/InstrumentError.java": `package hefty.core.instrument;
public record InstrumentError(String code, String message, scala.Option details) {}`,
  "hefty/core/instrument/InstrumentResult.java": `package hefty.core.instrument;
public record InstrumentResult(CaseValue status, io.circe.Json data, scala.Option error) {}`,
  "hefty/core/instrument/InstrumentHealth.java": `package hefty.core.instrument;
public record InstrumentHealth(String status, String message) implements scala.Product {
  public int productArity() { return message == null ? 0 : 1; }
  public Object productElement(int n) { return message; }
  public String toString() { return message == null ? status : status + "(" + message + ")"; } }`,
  "hefty/core/instrument/plugin/PluginContext.java": `package hefty.core.instrument.plugin;
public interface PluginContext { String pluginId(); java.nio.file.Path dataDir(); scala.collection.immutable.Map config();
  String heftyVersion(); org.slf4j.Logger logger();
  scala.concurrent.Future requestCognition(String prompt, int maxTokens); scala.concurrent.Future requestEmbedding(String text); }`,
  "hefty/core/instrument/plugin/InstrumentProvider.java": `package hefty.core.instrument.plugin;
public interface InstrumentProvider { void initialize(PluginContext context); scala.collection.immutable.List instruments(); void shutdown(); }`,
};

/** The top-level folders of the libraries. The plugin has none of them. */
const LIBRARY_FOLDERS = new Set(Object.keys(LIBRARIES).map((name) => name.split("/")[0]!));

const PLUGIN: Record<string, string> = {
  "com/example/HelloWorldProvider.java": `package com.example;
import hefty.core.instrument.plugin.*;
import scala.collection.immutable.*;
public class HelloWorldProvider implements InstrumentProvider {
  private PluginContext ctx;
  public void initialize(PluginContext context) { ctx = context; ctx.logger().info("Hello World plugin initialized");
    ctx.logger().warn("greeting is {}", ctx.config().get("greeting").get()); }
  public List instruments() { return new $colon$colon(new HelloInstrument(ctx), Nil$.MODULE$); }
  public void shutdown() { ctx.logger().info("Hello World plugin shutting down"); } }`,
  "com/example/HelloInstrument.java": `package com.example;
import hefty.core.instrument.*;
import hefty.core.instrument.plugin.PluginContext;
import io.circe.*;
import scala.*;
import scala.collection.immutable.*;
import scala.concurrent.*;
public class HelloInstrument implements Instrument {
  private final PluginContext ctx;
  public HelloInstrument(PluginContext ctx) { this.ctx = ctx; }
  public String name() { return "hello_world"; }
  public CaseValue origin() { return new CaseValue("Base"); }
  public CaseValue riskLevel() { return new CaseValue("ReadOnly"); }
  public InstrumentMetadata metadata() { return new InstrumentMetadata("hello_world", new CaseValue("Application"),
    "Returns a greeting. A minimal plugin instrument example.", new CaseValue("Shared"), new CaseValue("All"),
    schema(), Json$.MODULE$.fromFields(Nil$.MODULE$), Nil$.MODULE$, 5000, 10000,
    new $colon$colon("hello", new $colon$colon("greet", new $colon$colon("example", Nil$.MODULE$)))); }
  private static Json schema() { return Json$.MODULE$.fromFields(new $colon$colon(new Tuple2("type", Json$.MODULE$.fromString("object")), Nil$.MODULE$)); }
  public Future invoke(Json params, InvocationContext call, ExecutionContext ec) {
    if (params.noSpaces().contains("fail")) return result("Error", "", new InstrumentError("CONNECTION_ERROR", "Could not reach API", Option$.MODULE$.apply(null)));
    if (params.noSpaces().contains("think")) return ctx.requestCognition("x", 5);
    return result("Success", "Hello, " + params.noSpaces().replace('"', ' ') + " for " + call.sessionId() + " in " + call.timeoutMs().get(), null); }
  private static Future result(String status, String stdout, Object error) {
    var data = new $colon$colon(new Tuple2("stdout", Json$.MODULE$.fromString(stdout)), Nil$.MODULE$);
    return Future$.MODULE$.successful(new InstrumentResult(new CaseValue(status), Json$.MODULE$.fromFields(data), Option$.MODULE$.apply(error))); }
  public Future healthCheck(ExecutionContext ec) { return Future$.MODULE$.successful(new InstrumentHealth("Degraded", "a little slow")); } }`,
};

export interface HeftyClasses {
  /** The output of the plugin's own build. */
  plugin: string;
  /** hefty-core and its libraries. */
  libraries: string;
}

/**
 * Compiles everything in one run of javac, which spends most of its time starting. `extra_args` are further arguments
 * and sources for it; their classes are added to the plugin.
 */
export function buildHeftyClasses(into: string, extra_args: readonly string[] = []): HeftyClasses {
  const [sources, plugin, libraries] = ["src", "plugin", "libraries"].map((name) =>
    join(into, "hefty", name),
  );
  for (const [name, text] of Object.entries({ ...LIBRARIES, ...PLUGIN })) {
    mkdirSync(dirname(join(sources!, name)), { recursive: true });
    writeFileSync(join(sources!, name), text);
  }
  const names = [...Object.keys(LIBRARIES), ...Object.keys(PLUGIN)];
  runJdkTool("javac", ["-nowarn", "-d", plugin!, ...names, ...extra_args], sources!);
  mkdirSync(libraries!);
  for (const name of LIBRARY_FOLDERS) renameSync(join(plugin!, name), join(libraries!, name));
  return { libraries: libraries!, plugin: plugin! };
}

/**
 * The jar of the guide's Quick Start with its manifest, and the libraries that it needs in `lib/` unless they are left
 * out.
 */
export function packHeftyJar(
  { libraries, plugin }: HeftyClasses,
  into: string,
  manifest: string,
  with_libraries: boolean,
): string {
  const jar = join(into, with_libraries ? "hello-world.jar" : "hello-world-alone.jar");
  const content = join(into, `${with_libraries}`);
  cpSync(plugin, content, { recursive: true });
  mkdirSync(join(content, "META-INF"));
  cpSync(manifest, join(content, "META-INF/hefty-plugin.json"));
  const run = (...args: string[]) => runJdkTool("jar", args, into);
  if (with_libraries) {
    mkdirSync(join(content, "lib"));
    run("--create", "--file", join(content, "lib/hefty-core.jar"), "-C", libraries, ".");
  }
  run("--create", "--file", jar, "-C", content, ".");
  return jar;
}
