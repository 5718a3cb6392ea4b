% Run adaptive experiments on an aline service from MATLAB or GNU Octave.
%
% Copy this file beside your experiment; it needs MATLAB R2016b or Octave 7, and the program curl,
% which Windows, macOS and Linux have.
%
%   client = aline('http://127.0.0.1:8000');    % aline(url, 'token', 'aline_...') where it asks
%   experiment = client.create('psychometric', struct('target', {{'threshold'}}));
%   while ~experiment.finished()
%     trial = experiment.ask();                 % trial.design.stimulus
%     experiment.tell(trial, respond(trial.design.stimulus));
%   end
%   known = experiment.posterior();
%   known.threshold.interval
%
% A list that may hold one entry is a cell array: {'threshold'}.
%
% When the service does not answer, or its answer is cut short, a call is repeated with the same key
% until it does: it counts once, so nothing is lost and nothing is doubled. A refusal is an error
% 'aline:http409' (or another status) whose message says what to do.

% A service. Options: token, timeout (seconds for a call), patience (seconds to repeat it).
function client = aline(url, varargin)
  if nargin < 1, url = 'http://127.0.0.1:8000'; end
  service = struct('url', [regexprep(url, '/+$', ''), '/api/v1'], 'token', '', 'timeout', 10, 'patience', 30);
  for i = 1:2:numel(varargin), service.(varargin{i}) = varargin{i + 1}; end
  client.models = @() field_of(call(service, 'GET', '/models'), 'models');
  client.experiments = @() field_of(call(service, 'GET', '/experiments'), 'experiments');
  client.create = @(model, varargin) create(service, model, varargin{:});
  client.open = @(name) open_experiment(service, name);
end

% Start an experiment; settings has target, horizon, stop, name, seed, metadata, all optional. Where the
% model was trained for it also known, struct('guess', 0.5), prior, struct('slope', struct('family',
% 'Uniform', 'low', 0.2, 'high', 0.8)), and units, struct('stimulus', [-40, 0]).
function experiment = create(service, model, settings)
  if nargin < 3, settings = struct(); end
  settings.model = model;
  reply = call(service, 'POST', '/experiments', settings);
  experiment = experiment_of(service, reply.name);
end

function experiment = open_experiment(service, name)
  experiment = experiment_of(service, name);
  experiment.status(); % says so if it is not there
end

% One experiment of a service.
function e = experiment_of(service, name)
  path = ['/experiments/', escaped(name)];
  on = @(trial, what) sprintf('%s/trials/%d/%s', path, number_of(trial), what);
  get = @(more) call(service, 'GET', [path, more]);
  post = @(more) call(service, 'POST', [path, more], struct());
  e.name = name;
  % Everything about it: told, horizon, finished, target, trials, ...
  e.status = @() get('');
  e.finished = @() field_of(get(''), 'finished');
  % Aim at something else, plan more or fewer trials, or know something else: a struct with target,
  % horizon, stop, known, prior; struct() takes what is known, or the priors, back.
  e.change = @(settings) call(service, 'PATCH', path, settings);
  % The next trial.
  e.ask = @() post('/ask');
  % Record what a trial gave: tell(trial, outcome), then a struct of another design ([] for none)
  % and a struct of your own that is kept with the trial, such as struct('rt', 0.41).
  e.tell = @(trial, outcome, varargin) call(service, 'POST', on(trial, 'tell'), told(outcome, varargin{:}));
  % Give a trial up; if it was told, its outcome leaves the posterior.
  e.abandon = @(trial) call(service, 'POST', on(trial, 'abandon'), struct());
  % Ask a trial's design again.
  e.redo = @(trial) call(service, 'POST', on(trial, 'redo'), struct());
  % Take the last told trial back and ask it again.
  e.undo = @() post('/undo');
  % Add data measured earlier: a vector an axis, and the outcomes in the same order.
  e.attach = @(designs, outcomes) field_of(call(service, 'POST', [path, '/attach'], earlier(designs, outcomes)), 'trials');
  % Ask only for struct('candidates', designs), a vector an axis, or struct('box', bounds) from now on;
  % struct() is anywhere again.
  e.restrict = @(restriction) call(service, 'POST', [path, '/restrict'], restricted(restriction));
  % What is known: a struct by name of mean, std and interval; posterior(level) sets the interval's,
  % and posterior(level, true) is by the task's own likelihood, where it is known.
  e.posterior = @(varargin) posterior(get, varargin{:});
  % Why not to believe it, a sentence each.
  e.warnings = @() field_of(get('/posterior'), 'warnings');
  % What would be measured at designs, a vector an axis; predict(designs, level) sets the intervals'.
  e.predict = @(designs, varargin) call(service, 'POST', [path, '/predict'], predicted(designs, varargin{:}));
  % The experiment as the text of a file, json or csv.
  e.export = @(format) request(service, 'GET', [path, '/export?format=', format], '');
  % End it for good.
  e.close = @() post('/close');
end

function parameters = posterior(get, level, refined)
  if nargin < 2, level = 0.95; end
  if nargin < 3, refined = false; end
  path = sprintf('/posterior?level=%.12g&refined=%d', level, refined);
  parameters = field_of(get(path), 'parameters');
end

function body = told(outcome, design, note)
  body.outcome = outcome;
  if nargin > 1 && ~isempty(design), body.design = design; end
  if nargin > 2 && ~isempty(note), body.note = note; end
end

function body = predicted(designs, level)
  body.designs = columns(designs);
  if nargin > 1, body.level = level; end
end

function body = restricted(body)
  for name = {'candidates', 'box'}
    if isfield(body, name{1}), body.(name{1}) = columns(body.(name{1})); end
  end
end

function body = earlier(designs, outcomes)
  body.designs = columns(designs);
  body.outcomes = listed(outcomes);
end

% JSON has lists of one entry, and a vector of one is a number: cells stay lists.
function found = columns(designs)
  found = structfun(@listed, designs, 'UniformOutput', false);
end

function cells = listed(values)
  if iscell(values)
    cells = values(:).';
  elseif isstruct(values)
    cells = arrayfun(@(one) one, values(:).', 'UniformOutput', false);
  else
    cells = num2cell(values(:).');
  end
end

function value = field_of(data, name)
  value = data.(name);
end

function number = number_of(trial)
  if isstruct(trial), number = trial.number; else, number = trial; end
end

function text = escaped(name)
  bytes = unicode2native(name, 'UTF-8');
  text = sprintf('%%%02X', bytes);
end

% A call whose reply is data.
function data = call(service, method, path, body)
  if nargin < 4, text = ''; else, text = jsonencode(body); end
  data = request(service, method, path, text, @jsondecode);
end

% Send until there is a whole reply, within our patience.
function found = request(service, method, path, body, read)
  if nargin < 5, read = @(text) text; end
  key = sprintf('%s-%.6f', regexprep(tempname(), '.*[\\/]', ''), now() * 86400);
  started = tic();
  wait = 0.1;
  while true
    [status, text] = send(service, method, path, body, key);
    if status >= 200 && status < 300
      try
        found = read(text);
        return
      catch
        status = 0; % the reply was cut short
      end
    end
    % No whole reply; too many at once; a proxy whose service is away, restarts, or is slow.
    if ~ismember(status, [0, 429, 502, 503, 504]) || toc(started) + wait > service.patience
      error(sprintf('aline:http%d', status), '%s', detail_of(status, text));
    end
    pause(wait);
    wait = min(2 * wait, 2);
  end
end

function detail = detail_of(status, text)
  detail = sprintf('the service does not answer (%d)', status);
  try
    detail = field_of(jsondecode(text), 'detail');
  catch
  end
end

% By curl, whose settings are in a file: neither tokens nor quotes pass through a shell.
function [status, text] = send(service, method, path, body, key)
  base = tempname();
  files = strcat(base, {'.config', '.body', '.reply'});
  cleanup = onCleanup(@() cellfun(@remove, files));
  lines = {['url = "', service.url, path, '"'], ['request = "', method, '"'], 'silent', ...
    ['output = "', strrep(files{3}, '\', '\\'), '"'], 'write-out = "%{http_code}"', ...
    sprintf('max-time = %g', service.timeout), 'header = "Accept: application/json"'};
  if ~isempty(service.token), lines{end + 1} = ['header = "Authorization: Bearer ', service.token, '"']; end
  if ~strcmp(method, 'GET')
    write(files{2}, body);
    lines = [lines, {'header = "Content-Type: application/json"', ['header = "Idempotency-Key: ', key, '"'], ...
      ['data-binary = "@', strrep(files{2}, '\', '\\'), '"']}];
  end
  write(files{1}, strjoin(lines, sprintf('\n')));
  [failed, code] = system(sprintf('curl --config "%s"', files{1}));
  status = 0;
  text = '';
  if ~failed, status = str2double(code); end
  if exist(files{3}, 'file'), text = read_text(files{3}); end
end

function write(file, text)
  handle = fopen(file, 'w');
  fwrite(handle, unicode2native(text, 'UTF-8'), 'uint8');
  fclose(handle);
end

function text = read_text(file)
  handle = fopen(file, 'r');
  text = native2unicode(fread(handle, Inf, '*uint8').', 'UTF-8');
  fclose(handle);
end

function remove(file)
  if exist(file, 'file'), delete(file); end
end
