/**
 * Ajv with a linear-time regular expression engine. Loaded on first use, so that an idle gateway does not need it
 * (benchmark boot.rss). Runs in the worker and, for vetted schemas, in the gateway, so it may import other modules only
 * for their types.
 */
import type { SchemaIssue } from "@backplane/ports";
import type { AnySchema, ErrorObject, Options } from "ajv";

/** Returns no issues if the value is valid. `all` collects up to MAX_ISSUES instead of stopping at the first. */
export type Validator = (value: unknown, all: boolean) => SchemaIssue[];

export interface Compiler {
  /** `checked` is true if the schema was already validated against its meta-schema. Throws the errors of Ajv. */
  compile(schema: AnySchema, checked: boolean): Validator;
  /** Compiles one pattern; look-around and back-references are refused. */
  compilePattern(source: string): { test(text: string): boolean };
}

const MAX_ISSUES = 20;

export async function loadCompiler(): Promise<Compiler> {
  // A bundle of a CommonJS library has only the default export.
  const [draft07, draft2020, formats, { RE2JS }] = await Promise.all([
    import("ajv"),
    import("ajv/dist/2020.js"),
    import("ajv-formats"),
    import("re2js"),
  ]);
  const { Ajv } = draft07.default;
  const { Ajv2020 } = draft2020.default;

  const compilePattern = (source: string) => {
    try {
      const compiled = RE2JS.compile(RE2JS.translateRegExp(source));
      return { test: (text: string) => compiled.test(text), toString: () => `re2:${source}` };
    } catch (error) {
      const reason = error instanceof Error ? error.message.replace(/^error parsing regexp: /, "") : "";
      throw new Error(
        `pattern ${JSON.stringify(source.slice(0, 120))} cannot be used: ${reason} (look-around and back-references are not supported)`,
        { cause: error },
      );
    }
  };
  const regExp = Object.assign((source: string) => compilePattern(source), { code: "re2" });

  const createAjv = (draft_07: boolean, more: Options) => {
    const options: Options = { strict: false, logger: false, code: { regExp }, ...more };
    const ajv = draft_07 ? new Ajv(options) : new Ajv2020(options);
    formats.default.default(ajv);
    // The library's expression for this format backtracks.
    ajv.addFormat("url", (text: string) => /^(https?|ftp):\/\//i.test(text) && URL.canParse(text));
    return ajv;
  };
  // Compiling a meta-schema takes longer than compiling most schemas. Each of these two holds nothing but its
  // meta-schema.
  const meta_schema_validators = new Map<boolean, ReturnType<typeof createAjv>>();
  const checkAgainstMetaSchema = (schema: AnySchema) => {
    const draft_07 = isDraft07(schema);
    const ajv = meta_schema_validators.get(draft_07) ?? createAjv(draft_07, { meta: true });
    meta_schema_validators.set(draft_07, ajv);
    // The result is a promise only for asynchronous meta-schemas; these two are not.
    void ajv.validateSchema(schema, true);
  };

  const build = (schema: AnySchema, allErrors: boolean) => {
    const ajv = createAjv(isDraft07(schema), { allErrors, meta: false, validateSchema: false });
    return ajv.compile(withoutDialect(schema));
  };

  return {
    compilePattern,
    compile(schema, checked) {
      if (!checked) checkAgainstMetaSchema(schema);
      const first = build(schema, false);
      let collectingCheck: typeof first | undefined;
      return (value, all) => {
        if (first(value)) return [];
        if (!all) return toIssues(first.errors ?? []);
        collectingCheck ??= build(schema, true);
        return collectingCheck(value) === true ? [] : toIssues(collectingCheck.errors ?? []);
      };
    },
  };
}

/** `$schema` selects draft-07 or 2020-12; the default is 2020-12. */
function isDraft07(schema: AnySchema): boolean {
  return typeof schema === "object" && String(schema.$schema).includes("draft-07");
}

/** Without loaded meta-schemas Ajv would fail to find the one that `$schema` names. */
function withoutDialect(schema: AnySchema): AnySchema {
  if (typeof schema !== "object") return schema;
  const { $schema: _dialect, ...rest } = schema;
  return rest;
}

function toIssues(errors: readonly ErrorObject[]): SchemaIssue[] {
  const issues: SchemaIssue[] = [];
  for (const error of errors) {
    // The issues of the branches are more specific than "a branch must match".
    if (error.keyword === "if") continue;
    const issue = { path: error.instancePath.slice(0, 256), message: explain(error) };
    if (!issues.some((other) => other.path === issue.path && other.message === issue.message))
      issues.push(issue);
    if (issues.length === MAX_ISSUES) break;
  }
  return issues.length > 0 ? issues : [{ path: "", message: "does not match the schema" }];
}

/** Describes what the schema requires. Values of the input never appear, because they may be secrets. */
function explain(error: ErrorObject): string {
  const params = error.params as Record<string, unknown>;
  const short = (value: unknown) => {
    const text = JSON.stringify(value) ?? "";
    return text.length > 64 ? `${text.slice(0, 63)}…` : text;
  };
  switch (error.keyword) {
    case "enum": {
      const allowed = params.allowedValues as unknown[];
      const more = allowed.length > 8 ? ", …" : "";
      return `must be one of ${allowed.slice(0, 8).map(short).join(", ")}${more}`;
    }
    case "const":
      return `must be ${short(params.allowedValue)}`;
    case "required":
      return `must have the property ${short(params.missingProperty)}`;
    case "additionalProperties":
      return `must not have the property ${short(params.additionalProperty)}`;
    case "unevaluatedProperties":
      return `must not have the property ${short(params.unevaluatedProperty)}`;
    case "propertyNames":
      return `has a property name that is not allowed: ${short(params.propertyName)}`;
    case "pattern":
      return `must match the pattern ${short(params.pattern)}`;
    default:
      return (error.message ?? "does not match the schema").replace(/\bNOT\b/g, "not").slice(0, 200);
  }
}
