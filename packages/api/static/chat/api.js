// HTTP requests with the cookie of this browser. An error response becomes an Error with its code and fix.

export async function call(method, path, body) {
  const json = body === undefined ? {} : { "content-type": "application/json" };
  const response = await fetch(path, {
    method,
    headers: { accept: "application/json", ...json },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  const result = text === "" ? null : JSON.parse(text);
  if (response.ok) return result;
  const { code = "internal", message = response.statusText, details } = result?.error ?? {};
  throw Object.assign(new Error(message), { code, fix: details?.fix ?? "", status: response.status });
}

/** Returns a function that finds the remedy of an error code, or "". The list is loaded at the first call. */
export function createRemedies() {
  let list = null;
  return async (code) => {
    list ??= call("GET", "/static/chat/remedies.json").catch(() => ({}));
    return (await list)[code] ?? "";
  };
}
