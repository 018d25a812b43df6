import "@mantine/core/styles.layer.css";
import "./theme/theme.css";
import { createRoot } from "react-dom/client";
import { createServices } from "./api/services.ts";
import { App } from "./app/app.tsx";

createRoot(document.getElementById("root")!).render(<App services={createServices()} />);
