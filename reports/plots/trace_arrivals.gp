if (ARGC != 2) { print "usage: gnuplot -c trace_arrivals.gp DATA.csv OUT.svg|.png"; exit status 2 }

# Arrivals of a trace: requests per second in bins of time. Columns by name: label (of the trace),
# time_s (start of the bin; the last row ends the last bin), requests_per_s.
set encoding utf8
set datafile separator comma
set datafile columnheaders

# Missing or empty data leaves no statistics behind: status 1. The pass also takes the name.
name = ""
stats ARG1 using (name = strcol("label"), column("requests_per_s")) name "DATA" nooutput
if (!exists("DATA_max")) exit status 1
stats ARG1 using (column("time_s")) name "TIME" nooutput

height = 430
if (ARG2[strlen(ARG2)-3:] eq ".png") {
  title_font = ",17" # in points; the other terminal counts pixels
  set terminal pngcairo size 1000,height noenhanced font "DejaVu Sans,11" background rgb "white"
} else {
  title_font = ",22"
  set terminal svg size 1000,height fixed noenhanced font "DejaVu Sans,14" background rgb "white"
}
set output ARG2
y(pixels) = (pixels + 0.0) / height

set border 3 lc rgb "#595959"
set tics nomirror out tc rgb "#404040"
set grid xtics ytics lc rgb "#d9d9d9" lt 1 lw 1
unset key
set label 1 "Arrivals of ".name at screen 0.5, y(height - 26) center font title_font
set label 2 "requests per second" at graph 0, graph 1 left offset 0.3,0.8
set xlabel "time (s)" offset 0,0.3
set lmargin at screen 0.085
set rmargin at screen 0.965
set tmargin at screen y(height - 84)
set bmargin at screen y(60)
set xrange [0 : TIME_max > 0 ? TIME_max : 1]
set yrange [0 : DATA_max > 0 ? DATA_max * 1.08 : 1]
plot ARG1 using (column("time_s")):(column("requests_per_s")) with fillsteps fs solid 0.25 \
       noborder lc rgb "#0072B2", \
     ARG1 using (column("time_s")):(column("requests_per_s")) with steps lw 1.4 lc rgb "#0072B2"
