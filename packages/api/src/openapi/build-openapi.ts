/** The OpenAPI 3.1 document of the route table. Named schemas become components; all others are inlined. */

import { KEY_SCOPES } from "@backplane/contract";
import * as contract from "@backplane/contract/schema";
import type { AdapterMount } from "@backplane/ports";
import { z } from "zod";
import { type Route, TAGS } from "../http/route.ts";
import { acceptsBodyScope, BodyScopeSchema } from "../requests/body-scope.ts";

type JsonSchema = Record<string, unknown>;

const NAMED_SCHEMAS: Record<string, z.ZodType> = {
  AllowRule: contract.AllowRuleSchema,
  AllowRuleCreate: contract.AllowRuleCreateSchema,
  Approval: contract.ApprovalSchema,
  ApprovalAnswer: contract.ApprovalAnswerSchema,
  ApprovalGrant: contract.ApprovalGrantSchema,
  AuditEntry: contract.AuditEntrySchema,
  Binding: contract.BindingSchema,
  BindingCreate: contract.BindingCreateSchema,
  BindingPatch: contract.BindingPatchSchema,
  BodyScope: BodyScopeSchema,
  Block: contract.BlockSchema,
  Chain: contract.ChainSchema,
  ChangedBinding: contract.ChangedBindingSchema,
  Entry: contract.EntrySchema,
  ErrorEnvelope: contract.ErrorEnvelopeSchema,
  Export: contract.ExportSchema,
  Grant: contract.GrantSchema,
  Installation: contract.InstallationSchema,
  Invocation: contract.InvocationSchema,
  Key: contract.KeySchema,
  KeyCreate: contract.KeyCreateSchema,
  Manifest: contract.ManifestSchema,
  Package: contract.PackageSchema,
  Permissions: contract.PermissionsSchema,
  Run: contract.RunSchema,
  Secret: contract.SecretSchema,
  SecretPut: contract.SecretPutSchema,
  SemanticEvent: contract.SemanticEventSchema,
  Session: contract.SessionSchema,
};

export function buildOpenApi(
  routes: readonly Route[],
  version: string,
  mounts: readonly AdapterMount[],
): JsonSchema {
  const components = createComponents();
  const paths: Record<string, Record<string, unknown>> = {};
  for (const route of routes) {
    paths[route.path] ??= {};
    paths[route.path]![route.method.toLowerCase()] = describeRoute(route, components);
  }
  components.addBodyScopes();
  // Sorted, so that the document does not depend on the order in which plugins were loaded.
  for (const mount of mounts.toSorted((a, b) => (a.mounted < b.mounted ? -1 : 1))) {
    paths[mount.mounted] ??= {};
    paths[mount.mounted]![mount.method.toLowerCase()] = describeMount(mount, components);
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Backplane",
      version,
      summary: "The plugin gateway for AI agents",
      description:
        "Every error is an ErrorEnvelope. Lists return `{items, next}`; pass `next` as `after` to get the next page. " +
        "Creates honor `Idempotency-Key` for 24 hours.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: "/" }],
    tags: TAGS.map((name) => ({ name })),
    security: [{ token: [] }, { cookie: [] }],
    paths,
    components: {
      securitySchemes: {
        token: {
          type: "http",
          scheme: "bearer",
          description: `The admin token, an API key (bpk_…) or a delegated token (vai_dlg_…). Scopes of keys: ${KEY_SCOPES.join(", ")}.`,
        },
        cookie: { type: "apiKey", in: "cookie", name: "backplane_session" },
      },
      schemas: components.schemas,
    },
  };
}

function describeRoute(route: Route, components: Components): JsonSchema {
  const operation: JsonSchema = {
    operationId: route.operation_id,
    summary: route.summary,
    tags: [route.tag],
    parameters: [
      ...describeParameters(route.params, "path", components),
      ...describeParameters(route.query, "query", components),
      ...describeHeaderParameters(route),
    ],
    responses: describeResponses(route, components),
  };
  if (route.progress === true) operation.description = [route.description, PROGRESS_TEXT].join(" ").trim();
  else if (route.description !== undefined) operation.description = route.description;
  if (route.auth === "public") operation.security = [];
  else if ("scope" in route.auth) operation["x-backplane-scope"] = route.auth.scope;
  else if ("host" in route.auth) operation["x-backplane-scope"] = "admin token";
  const content: JsonSchema = {};
  if (route.body !== undefined)
    content["application/json"] = { schema: components.convertBody(route.body, canStateScope(route)) };
  for (const type of route.uploads ?? []) content[type] = { schema: { type: "string", format: "binary" } };
  if (Object.keys(content).length > 0) operation.requestBody = { required: true, content };
  return operation;
}

/** Bodies in the formats of the model vendors and of the web API under `/api` are described without a scope. */
function canStateScope({ auth, path, error_schema }: Route): boolean {
  return auth !== "public" && path.startsWith("/v1/") && error_schema === undefined;
}

const PROGRESS_TEXT =
  "If the `Accept` header prefers `text/event-stream` to JSON, the response is a stream of server-sent events: `progress` " +
  "items (ProgressEvent, at least one every 2 s), then one `result` with the body below, or one `error` with the ErrorEnvelope. If the client " +
  "disconnects, the gateway stops the work; a write that has begun is completed.";

/** The route of an adapter: the plugin supplies the schema of the body and describes the responses in text. */
function describeMount(mount: AdapterMount, components: Components): JsonSchema {
  const names = [...mount.mounted.matchAll(/\{(\w+)\}/g)].map((match) => match[1]!);
  const responses = Object.entries(mount.responses ?? { 200: "The response of the plugin." });
  return {
    operationId: operationIdOf(mount),
    summary: mount.summary,
    description: `Served by the plugin ${mount.plugin}.`,
    tags: ["Adapters"],
    "x-backplane-scope": mount.scope,
    "x-backplane-plugin": mount.plugin,
    parameters: names.map((name) => ({ name, in: "path", required: true, schema: { type: "string" } })),
    responses: {
      ...Object.fromEntries(responses.map(([status, description]) => [status, { description }])),
      default: describeErrorResponse(components),
    },
    ...(mount.body === undefined
      ? {}
      : { requestBody: { required: true, content: { "application/json": { schema: mount.body } } } }),
  };
}

function describeResponses(route: Route, components: Components): JsonSchema {
  const all: JsonSchema = {};
  for (const [status, response] of Object.entries(route.responses)) {
    const response_object: JsonSchema = { description: response.description };
    if (response.schema !== undefined || response.type !== undefined)
      response_object.content = {
        [response.type ?? "application/json"]: {
          schema: response.schema ? components.convert(response.schema, "output") : { type: "string" },
        },
        ...(route.progress === true ? { "text/event-stream": { schema: { type: "string" } } } : {}),
      };
    if (route.etag && status !== "304" && status !== "204")
      response_object.headers = { ETag: { schema: { type: "string" } } };
    all[status] = response_object;
  }
  all.default = describeErrorResponse(components, route.error_schema);
  return all;
}

function describeErrorResponse(
  components: Components,
  schema: z.ZodType = contract.ErrorEnvelopeSchema,
): JsonSchema {
  const description =
    schema === contract.ErrorEnvelopeSchema
      ? "An error; /docs/errors explains every code."
      : "An error in the format of the protocol's vendor.";
  return {
    description,
    content: { "application/json": { schema: components.convert(schema, "output") } },
  };
}

function describeParameters(
  schema: z.ZodType | undefined,
  location: "path" | "query",
  components: Components,
): JsonSchema[] {
  if (schema === undefined) return [];
  const object = components.convert(schema, "input") as {
    properties?: Record<string, JsonSchema>;
    required?: string[];
  };
  return Object.entries(object.properties ?? {}).map(([name, property]) => {
    const { description, ...rest } = property;
    return {
      name,
      in: location,
      required: location === "path" || (object.required ?? []).includes(name),
      ...(description === undefined ? {} : { description }),
      schema: rest,
    };
  });
}

function describeHeaderParameters(route: Route): JsonSchema[] {
  const header = (name: string, description: string) => ({
    name,
    in: "header",
    required: false,
    description,
    schema: { type: "string" },
  });
  const list: JsonSchema[] = Object.entries(route.headers ?? {}).map(([name, text]) => header(name, text));
  if (route.idempotent)
    list.push(header("Idempotency-Key", "A repeat within 24 hours does not repeat the work."));
  if (route.etag && route.method === "GET")
    list.push(header("If-None-Match", "Responds 304 while the row is unchanged."));
  if (route.if_match)
    list.push(header("If-Match", "The ETag that was read; responds 412 if the row has changed since."));
  if (route.responses[200]?.type === "text/event-stream")
    list.push(header("Last-Event-ID", "Resumes after this event."));
  return list;
}

interface Components {
  schemas: Record<string, JsonSchema>;
  convert(schema: z.ZodType, io: "input" | "output"): JsonSchema;
  /** The body of a request. With `scoped`, it also has the field `scope` if its schema allows it. */
  convertBody(schema: z.ZodType, scoped: boolean): JsonSchema;
  /** Adds the field `scope` to the bodies. Must be called last, because `convert` rejects a changed component. */
  addBodyScopes(): void;
}

function createComponents(): Components {
  const registry = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(NAMED_SCHEMAS)) registry.add(schema, { id });
  const schemas: Record<string, JsonSchema> = { Json: { description: "Any JSON value." } };

  /** A schema with a default has one form in requests and another in responses, so it cannot be a component of both. */
  const addComponent = (id: string, schema: JsonSchema): void => {
    schemas[id] ??= schema;
    if (JSON.stringify(schemas[id]) !== JSON.stringify(schema))
      throw new Error(`The component ${id} has two different schemas; remove it from NAMED_SCHEMAS.`);
  };

  const scoped_bodies = new Set<JsonSchema>();

  const components: Components = {
    schemas,
    convertBody(schema, scoped) {
      const body = components.convert(schema, "input");
      if (scoped && acceptsBodyScope(schema)) scoped_bodies.add(resolve(body));
      return body;
    },
    addBodyScopes() {
      const scope = components.convert(BodyScopeSchema, "input");
      for (const body of scoped_bodies)
        body.properties = { ...(body.properties as object | undefined), scope };
    },
    convert(schema, io) {
      const converted = z.toJSONSchema(schema, {
        io,
        metadata: registry,
        unrepresentable: "any",
        // The registry above holds names only; descriptions are in zod's global registry.
        override({ zodSchema, jsonSchema }) {
          const text = z.globalRegistry.get(zodSchema)?.description;
          if (text !== undefined && jsonSchema.$ref === undefined) jsonSchema.description = text;
        },
      });
      const { $schema: _, $defs, id, ...root } = withComponentRefs(converted) as JsonSchema;
      for (const [name, definition] of Object.entries(($defs ?? {}) as Record<string, JsonSchema>)) {
        const { id: __, ...rest } = definition;
        if (!isAnyJson(name)) addComponent(name, rest);
      }
      if (typeof id !== "string") return root;
      addComponent(id, root);
      return { $ref: `#/components/schemas/${id}` };
    },
  };
  return components;

  function resolve(schema: JsonSchema): JsonSchema {
    const { $ref } = schema as { $ref?: string };
    return $ref === undefined ? schema : schemas[$ref.slice("#/components/schemas/".length)]!;
  }
}

/** The only recursive schema of the contract is "any JSON"; the converter names its copies __schema0, __schema1, … */
function isAnyJson(name: string): boolean {
  return name.startsWith("__schema");
}

/** Rewrites `#/$defs/X` to the components. */
function withComponentRefs(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withComponentRefs);
  if (typeof value !== "object" || value === null) return value;
  const out: JsonSchema = {};
  for (const [key, item] of Object.entries(value)) {
    if (key === "$ref" && typeof item === "string" && item.startsWith("#/$defs/")) {
      const name = item.slice("#/$defs/".length);
      out.$ref = `#/components/schemas/${isAnyJson(name) ? "Json" : name}`;
    } else out[key] = withComponentRefs(item);
  }
  return out;
}

/** The operation id of an adapter's route, in the document and in the metrics: `web_get_api_config_by_key`. */
export function operationIdOf({ plugin, method, mounted }: AdapterMount): string {
  const words = mounted
    .slice(1)
    .replaceAll(/\{(\w+)\}/g, "by_$1")
    .replaceAll(/[^A-Za-z0-9]+/g, "_");
  return `${plugin.replaceAll("-", "_")}_${method.toLowerCase()}_${words}`;
}
