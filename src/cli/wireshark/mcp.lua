-- Fields of the Model Context Protocol for Wireshark: mcp.method, mcp.tool, mcp.id, mcp.session,
-- mcp.kind, mcp.response_to, mcp.latency.
--
-- A post-dissector: it reads what Wireshark's own dissectors found in a packet, and adds fields. So
-- it works wherever Wireshark finds JSON: in HTTP/1.1, HTTP/2 and WebSocket, behind TLS with a key
-- log, and in the files that "mcptap export --format pcapng" writes of STDIO. docs/wireshark.md
-- lists what it cannot see. "mcptap wireshark install" puts this file into Wireshark's folder of
-- plugins.
--
--   bodies of a packet ─► JSON ─► JSON-RPC messages ─► pairing of responses ─► fields

-- Wireshark has another protocol whose name is mcp (Miscabling Protocol), so this one has the name
-- of the program. Names of fields are free. The plugin can be in the folder of the user and in that
-- of all users.
local is_first, proto = pcall(Proto, "mcptap", "Model Context Protocol")
if not is_first then return end

local fields = {
    method = ProtoField.string("mcp.method", "Method"),
    tool = ProtoField.string("mcp.tool", "Tool"),
    id = ProtoField.string("mcp.id", "Id (as JSON)"),
    session = ProtoField.string("mcp.session", "Session"),
    kind = ProtoField.string("mcp.kind", "Kind"),
    response_to = ProtoField.framenum("mcp.response_to", "Response to the request in", base.NONE, frametype.REQUEST),
    latency = ProtoField.relative_time("mcp.latency", "Latency"),
}
proto.fields = { fields.session, fields.kind, fields.id, fields.method, fields.tool, fields.response_to, fields.latency }

-- ---------------------------------------------------------------- fields of other dissectors

-- A field that this Wireshark may not have gives nothing.
local function extractor(name)
    local is_known, field = pcall(Field.new, name)
    if not is_known then
        return function() return {} end
    end
    return function() return { field() } end
end

local json = extractor("json")
local time = extractor("frame.time_epoch")
local interface_name = extractor("frame.interface_name")
local exported_pdu = extractor("exported_pdu")
local pipe_direction = extractor("exported_pdu.p2p_dir")
local tcp_stream = extractor("tcp.stream")
local tcp_source = extractor("tcp.srcport")
local tcp_payload = extractor("tcp.payload")
local tcp_retransmissions = {
    extractor("tcp.analysis.retransmission"),
    extractor("tcp.analysis.fast_retransmission"),
    extractor("tcp.analysis.spurious_retransmission"),
}
local http_request = extractor("http.request")
local http_uri = extractor("http.request.uri")
local http_file_data = extractor("http.file_data")
local http_content_type = extractor("http.content_type")
local http_header_lines = { extractor("http.request.line"), extractor("http.response.line") }
local http2_method = extractor("http2.headers.method")
local http2_data = extractor("http2.data.data")
local http2_whole = extractor("http2.body.reassembled.data")
local http2_names = extractor("http2.header.name")
local http2_values = extractor("http2.header.value")

local websocket_text = extractor("websocket.payload.text")
local websocket_mask = extractor("websocket.mask")

local function text_of(info)
    return info.range:raw()
end

-- ---------------------------------------------------------------- JSON

-- Nested deeper than this is no message of MCP. It bounds the stack.
local MOST_DEPTH = 100

local NUMBER = "^-?%d+%.?%d*[eE]?[+-]?%d*"

-- Text without control characters: tshark prints fields to the terminal as they are.
local function visible(text)
    local function escaped(char) return string.format("\\u%04x", char:byte()) end
    return (text:gsub("%c", escaped):gsub("\xc2([\x80-\x9f])", escaped))
end

-- Decodes the string whose quote is at `at`. Returns it and the position behind it. Escapes of
-- characters outside printable ASCII stay as they are written.
local function decode_string(text, at)
    local stop = at + 1
    while true do
        stop = text:find('["\\]', stop)
        if not stop then return nil end
        if text:sub(stop, stop) == '"' then break end
        stop = stop + 2
    end
    local value = text:sub(at + 1, stop - 1)
    if value:find("\\", 1, true) then
        value = value:gsub("\\(.)(%x?%x?%x?%x?)", function(letter, digits)
            local code = letter == "u" and #digits == 4 and tonumber(digits, 16)
            if code and code >= 0x20 and code < 0x7f then return string.char(code) end
            if letter:find('["\\/]') then return letter .. digits end
        end)
    end
    return visible(value), stop + 1
end

-- Decodes the value at `at`. Returns it and the position behind it; nil if there is none. A number
-- is its text, in a table that says so: ids are compared as they were written. Arrays and objects
-- are tables; `members` are the members of an object.
local function decode(text, at, depth)
    at = text:find("%S", at)
    if not at or depth > MOST_DEPTH then return nil end
    local first = text:sub(at, at)
    if first == '"' then
        return decode_string(text, at)
    elseif first == "{" or first == "[" then
        local is_object = first == "{"
        local close = is_object and "}" or "]"
        local value = is_object and { members = {} } or { items = {} }
        at = text:find("%S", at + 1)
        if at and text:sub(at, at) == close then return value, at + 1 end
        while at do
            local key, item
            if is_object then
                if text:sub(at, at) ~= '"' then return nil end
                key, at = decode_string(text, at)
                at = at and text:match("^%s*:()", at)
                if not at then return nil end
            end
            item, at = decode(text, at, depth + 1)
            if not at then return nil end
            if is_object then
                value.members[key] = item
            else
                value.items[#value.items + 1] = item
            end
            local mark, behind = text:match("^%s*([,%]}])%s*()", at)
            if mark == close then return value, text:match("^%s*[%]}]()", at) end
            if mark ~= "," then return nil end
            at = behind
        end
        return nil
    end
    local number = text:match(NUMBER, at)
    if number then return { number = number }, at + #number end
    local word = text:match("^%a+", at)
    if word == "true" or word == "false" or word == "null" then
        return { word = word }, at + #word
    end
    return nil
end

local function member(value, name)
    return type(value) == "table" and value.members and value.members[name]
end

-- An id as JSON, so that 3 and "3" differ.
local function id_text(id)
    if type(id) == "string" then return '"' .. id .. '"' end
    return type(id) == "table" and (id.number or id.word) or nil
end

-- ---------------------------------------------------------------- messages

-- The message that a JSON object is; nil if it is none. Like mcptap itself, it forgives a missing
-- "jsonrpc" where other members show what it is.
local function message_of(value)
    local is_marked = member(value, "jsonrpc") ~= nil
    local method, id = member(value, "method"), id_text(member(value, "id"))
    if type(method) == "string" and (is_marked or id or member(value, "params")) then
        local tool = method == "tools/call" and member(member(value, "params"), "name")
        return {
            kind = id and "request" or "notification",
            method = method,
            id = id,
            tool = type(tool) == "string" and tool or nil,
        }
    elseif not (is_marked or id) then
        return nil
    elseif member(value, "error") then
        return { kind = "error", id = id }
    elseif member(value, "result") then
        return { kind = "response", id = id }
    end
    return nil
end

-- Appends the messages of a JSON text: one, or those of a batch.
local function add_messages(text, messages)
    local value = decode(text, 1, 0)
    if type(value) ~= "table" then return end
    for _, item in ipairs(value.items or { value }) do
        messages[#messages + 1] = message_of(item)
    end
end

-- Appends the messages in server-sent events. Returns the URI of an event "endpoint", if there is
-- one. Wireshark shows a body in parts as they arrive, and once more as a whole. `found` counts the
-- events of parts, which are left out when the whole comes.
local function add_events(text, messages, found, is_part)
    local data, event, endpoint = {}, nil, nil
    local function dispatch()
        local event_text = table.concat(data, "\n")
        local before = found[event_text] or 0
        if event == "endpoint" then
            endpoint = event_text
        elseif is_part then
            found[event_text] = before + 1
            add_messages(event_text, messages)
        elseif before > 0 then
            found[event_text] = before - 1
        else
            add_messages(event_text, messages)
        end
        data, event = {}, nil
    end
    for line in (text:gsub("\r\n", "\n") .. "\n\n"):gmatch("(.-)\n") do
        if line == "" then
            if #data > 0 then dispatch() end
            event = nil
        elseif line:find("^data:") then
            data[#data + 1] = line:match("^data: ?(.*)")
        elseif line:find("^event:") then
            event = line:match("^event: ?(.*)")
        end
    end
    return endpoint
end

-- ---------------------------------------------------------------- what is remembered of a capture

local requests     -- requests without a response, by scope, sender and id
local session_of   -- the session of a TCP stream
local client_of    -- the client's port in a TCP stream with HTTP/2
local messages_of  -- the messages of a packet
local early        -- by TCP stream, how often an event was found in a part of a body

function proto.init()
    requests, session_of, client_of, messages_of, early = {}, {}, {}, {}, {}
end

-- The session id in a URI of the transport HTTP+SSE (2024-11-05).
local function session_in_uri(uri)
    return uri and uri:match("[?&][sS]ession_?[iI]d=([^&%s]+)")
end

-- The value of Mcp-Session-Id in this packet.
local function session_in_headers()
    for _, lines in ipairs(http_header_lines) do
        for _, line in ipairs(lines()) do
            local name, value = tostring(line.value):match("^([%w-]+):%s*(%S*)")
            if name and name:lower() == "mcp-session-id" then return value end
        end
    end
    local values = http2_values()
    for at, name in ipairs(http2_names()) do
        if tostring(name.value):lower() == "mcp-session-id" and values[at] then
            return tostring(values[at].value)
        end
    end
    return nil
end

-- Where a message was found: its session, who sent it, and the scopes in which its id is unique,
-- the closest one first.
local function place()
    if exported_pdu()[1] then
        local interface = interface_name()[1]
        local name = interface and tostring(interface.value) or "pipe"
        local direction = pipe_direction()[1]
        return { session = name, is_client = not direction or direction.value == 0, scopes = { "pipe " .. name } }
    end
    local stream = tcp_stream()[1] and tcp_stream()[1].value
    if not stream then return { session = nil, is_client = true, scopes = {} } end
    local port = tcp_source()[1] and tcp_source()[1].value
    if http2_method()[1] then client_of[stream] = client_of[stream] or port end
    local is_client = http_request()[1] ~= nil
    if client_of[stream] then is_client = client_of[stream] == port end
    -- Only clients mask.
    if websocket_mask()[1] then is_client = websocket_mask()[1].value end
    local uri = http_uri()[1]
    local session = session_in_headers() or session_in_uri(uri and tostring(uri.value))
    if session then session_of[stream] = session end
    session = session or session_of[stream]
    local scopes = { "stream " .. stream }
    if session then scopes[2] = "session " .. session end
    return { session = session or "tcp.stream " .. stream, stream = stream, is_client = is_client, scopes = scopes }
end

local function key_of(scope, is_client, id)
    return scope .. (is_client and "\0c" or "\0s") .. id
end

-- Finds the request of a response, or remembers a request.
local function pair(message, at, frame, now)
    if not message.id then return end
    if message.kind == "request" then
        message.frame, message.time = frame, now
        for _, scope in ipairs(at.scopes) do
            requests[key_of(scope, at.is_client, message.id)] = message
        end
        return
    end
    for _, scope in ipairs(at.scopes) do
        local request = requests[key_of(scope, not at.is_client, message.id)]
        if request then
            message.method, message.tool = request.method, request.tool
            message.response_to = request.frame
            if now and request.time then message.latency = now - request.time end
            for _, of in ipairs(at.scopes) do
                requests[key_of(of, not at.is_client, message.id)] = nil
            end
            return
        end
    end
end

-- The part of a TCP segment that looks like events. The chunks of HTTP/1.1 have lines of their own
-- between them, which are no fields of events.
local function events_of_segment()
    for _, retransmission in ipairs(tcp_retransmissions) do
        if retransmission()[1] then return nil end
    end
    local info = tcp_payload()[1]
    local text = info and text_of(info) or ""
    local is_there = text:find("%f[^\r\n\0]data: ?{") or text:find("%f[^\r\n\0]event: ?endpoint")
    return is_there and text
end

-- The messages of this packet.
local function find_messages(frame)
    local messages, endpoint = {}, nil
    local stream = tcp_stream()[1] and tcp_stream()[1].value
    local found = stream and (early[stream] or {}) or {}
    if stream then early[stream] = found end
    for _, info in ipairs(json()) do
        add_messages(text_of(info), messages)
    end
    if #messages == 0 then
        for _, info in ipairs(websocket_text()) do
            add_messages(text_of(info), messages)
        end
    end
    local content_type = http_content_type()[1]
    if content_type and tostring(content_type.value):find("event-stream", 1, true) then
        for _, info in ipairs(http_file_data()) do
            endpoint = add_events(text_of(info), messages, found, false) or endpoint
        end
    end
    local wholes = {}
    for _, info in ipairs(http2_whole()) do
        wholes[text_of(info)] = true
    end
    -- Wireshark tells the content type of HTTP/2 only beside the header. Events begin with a field.
    for _, info in ipairs(http2_data()) do
        local text = text_of(info)
        if text:find("^%s*data:") or text:find("^%s*event:") or text:find("^%s*id:") then
            endpoint = add_events(text, messages, found, not wholes[text]) or endpoint
        end
    end
    -- Wireshark shows the events of HTTP/1.1 when their response has ended, and some never end.
    if stream and #messages == 0 and not content_type and #http2_data() == 0 then
        local text = events_of_segment()
        if text then endpoint = add_events(text, messages, found, true) or endpoint end
    end
    local at = place()
    if endpoint and at.stream then
        session_of[at.stream] = session_in_uri(endpoint) or session_of[at.stream]
    end
    if #messages == 0 then return nil end
    local now = time()[1] and time()[1].value
    for _, message in ipairs(messages) do
        message.at = at
        pair(message, at, frame, now)
    end
    return messages
end

-- ---------------------------------------------------------------- output

-- A line for people: "tools/call forecast 3", "response 3 tools/call".
local function summary(message)
    local words = {}
    if message.kind == "response" or message.kind == "error" then words[1] = message.kind end
    words[#words + 1] = message.method
    words[#words + 1] = message.tool
    words[#words + 1] = message.id and "id " .. message.id
    return table.concat(words, " ")
end

function proto.dissector(buffer, pinfo, tree)
    local frame = pinfo.number
    -- A packet is dissected again when it is shown. Its pairing was right the first time.
    if messages_of[frame] == nil then
        messages_of[frame] = find_messages(frame) or false
    else
        -- A later packet may have told the session of an earlier one.
        for _, message in ipairs(messages_of[frame] or {}) do
            local at = message.at
            at.session = at.stream and session_of[at.stream] or at.session
        end
    end
    local messages = messages_of[frame]
    if not messages or #messages == 0 then return end
    local lines = {}
    for _, message in ipairs(messages) do
        local line = summary(message)
        lines[#lines + 1] = line
        local part = tree:add(proto, buffer(), "Model Context Protocol, " .. line)
        if message.at.session then part:add(fields.session, visible(message.at.session)):set_generated() end
        part:add(fields.kind, message.kind):set_generated()
        if message.id then part:add(fields.id, message.id):set_generated() end
        if message.method then part:add(fields.method, message.method):set_generated() end
        if message.tool then part:add(fields.tool, message.tool):set_generated() end
        if message.response_to then part:add(fields.response_to, message.response_to):set_generated() end
        if message.latency then part:add(fields.latency, message.latency):set_generated() end
    end
    pinfo.cols.protocol = "MCP"
    pinfo.cols.info:prepend(table.concat(lines, ", ") .. "  ")
end

register_postdissector(proto)
