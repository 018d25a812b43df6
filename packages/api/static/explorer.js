// Loads /openapi.json with the session cookie of this browser, or with a token, and shows it in Swagger UI.
const byId = (id) => document.getElementById(id);

async function loadDocument(token) {
  const headers = token === null ? {} : { authorization: `Bearer ${token}` };
  const response = await fetch("/openapi.json", { headers });
  const body = await response.json();
  if (!response.ok) throw Object.assign(new Error(body.error.message), body.error);
  return body;
}

function showExplorer(spec, token) {
  byId("login").hidden = true;
  const explorer = SwaggerUIBundle({
    spec,
    dom_id: "#explorer",
    deepLinking: true,
    docExpansion: "none",
    filter: true,
    displayOperationId: true,
    displayRequestDuration: true,
    tryItOutEnabled: true,
    // Without this, Swagger UI may send the document to an online validator.
    validatorUrl: null,
    onComplete() {
      if (token !== null) explorer.preauthorizeApiKey("token", token);
    },
  });
}

async function open(token) {
  try {
    showExplorer(await loadDocument(token), token);
  } catch (error) {
    byId("problem").textContent = error.code?.startsWith("auth.")
      ? error.message
      : `The description of the API could not be loaded: ${error.message}`;
    byId("login").hidden = false;
  }
}

byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  void open(byId("token").value.trim());
});

const { theme } = document.documentElement.dataset;
const dark = theme === undefined ? matchMedia("(prefers-color-scheme: dark)").matches : theme === "dark";
document.documentElement.classList.toggle("dark-mode", dark);
void open(null);
