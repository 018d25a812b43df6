import { serve } from "@backplane/sdk";
import { plugin } from "./hello.ts";

serve(plugin);
