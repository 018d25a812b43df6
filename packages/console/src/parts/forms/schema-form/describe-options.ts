/** Gives titles to the options of `oneOf` and `anyOf` that have none, because a person chooses between the titles. */
import { isObject, type Json, type JsonObject } from "@backplane/contract";

export function describeOptions(schema: Json): Json {
  if (Array.isArray(schema)) return schema.map(describeOptions);
  if (!isObject(schema)) return schema;
  const described = Object.entries(schema as JsonObject).map(([keyword, value]) => {
    if ((keyword === "oneOf" || keyword === "anyOf") && Array.isArray(value))
      return [keyword, value.map((option, index) => withTitle(describeOptions(option), index))];
    return [keyword, keyword === "default" || keyword === "const" ? value : describeOptions(value)];
  });
  return Object.fromEntries(described) as JsonObject;
}

const TYPES: Record<string, string> = {
  array: "List",
  boolean: "Yes or no",
  integer: "Whole number",
  null: "Not set",
  number: "Number",
  object: "Object",
  string: "Text",
};

function withTitle(option: Json, index: number): Json {
  if (!isObject(option)) return option;
  const schema = option as JsonObject;
  if (typeof schema.title === "string") return schema;
  const ref = typeof schema.$ref === "string" ? schema.$ref.split("/").at(-1) : undefined;
  const type = typeof schema.type === "string" ? TYPES[schema.type] : undefined;
  const name = ref ?? constantOf(schema) ?? type ?? `Option ${index + 1}`;
  return { ...schema, title: name };
}

/** The value of the property that distinguishes the options: `{kind: {const: "http"}}`. */
function constantOf({ const: value, properties }: JsonObject): string | undefined {
  if (value !== undefined) return typeof value === "string" ? value : JSON.stringify(value);
  if (!isObject(properties)) return undefined;
  for (const property of Object.values(properties as JsonObject)) {
    const constant = isObject(property) ? (property as JsonObject).const : undefined;
    if (typeof constant === "string") return constant;
  }
  return undefined;
}
